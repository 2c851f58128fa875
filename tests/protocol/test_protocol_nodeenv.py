"""What both processes of a node need of their environment: one list, and both hold to it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.daemon import settings as of_daemon
from holdfast.executor import settings as of_executor
from holdfast.protocol import nodeenv
from holdfast.protocol.nodeenv import BadSettings

Read = Callable[[dict[str, str]], object]
BOTH = pytest.mark.parametrize("read", [of_executor.read, of_daemon.read])


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "token").write_text("secret\n")
    return {
        nodeenv.NODE: "node-7",
        nodeenv.DRIVER_URL: "unix:/run/driver.sock",
        nodeenv.TOKEN_FILE: str(tmp_path / "token"),
        nodeenv.SCRATCH: "/scratch",
        nodeenv.MEMORY: "/dev/shm/node-7",
    }


@BOTH
@pytest.mark.parametrize("name", nodeenv.REQUIRED)
def test_each_variable_that_is_missing_or_empty_is_named_with_what_to_set(
    read: Read, name: str, environment: dict[str, str]
) -> None:
    for wrong in ({**environment, name: ""}, {k: v for k, v in environment.items() if k != name}):
        with pytest.raises(BadSettings) as error:
            read(wrong)
        assert str(error.value) == f"{name} is not set: set it to {nodeenv.REQUIRED[name]}."


@BOTH
def test_all_mistakes_are_told_at_once(read: Read) -> None:
    with pytest.raises(BadSettings) as error:
        read({nodeenv.DRIVER_URL: "ftp://x"})
    told = str(error.value)
    assert all(name in told for name in nodeenv.REQUIRED)
    assert "'ftp://x' is neither http://, https:// nor unix:. Set it to http" in told


def test_both_processes_of_a_node_understand_the_same(environment: dict[str, str]) -> None:
    environment |= {nodeenv.ADDRESS: "10.0.0.7", nodeenv.IFNAME: "veth7"}
    executor, daemon = of_executor.read(environment), of_daemon.read(environment)
    assert executor.node.paths == daemon.paths
    assert (executor.node.name, executor.node.ifname) == (daemon.node, daemon.interface)
    assert (executor.address, executor.driver_urls) == (daemon.address, daemon.driver_urls)
    assert executor.token() == daemon.token() == "secret"


@BOTH
def test_every_driver_of_a_list_is_read_and_each_mistake_in_it_is_named(
    read: Read, environment: dict[str, str]
) -> None:
    environment[nodeenv.DRIVER_URL] = "http://a:1/, https://b:2"
    assert read(environment).driver_urls == ("http://a:1", "https://b:2")  # type: ignore[attr-defined]
    environment[nodeenv.DRIVER_URL] = "http://a:1,,tcp://b"
    with pytest.raises(BadSettings, match=r"'' is neither .* 'tcp://b' is neither"):
        read(environment)


@BOTH
def test_a_ca_that_is_none_is_told_and_where_to_have_it(
    read: Read, environment: dict[str, str]
) -> None:
    with pytest.raises(BadSettings, match=r"HOLDFAST_DRIVER_CA: it has no certificate .* ca\.crt"):
        read({**environment, nodeenv.DRIVER_CA: "none"})


@BOTH
def test_a_token_that_was_changed_is_read_for_the_next_connection(
    read: Read, environment: dict[str, str]
) -> None:
    settings = read(environment)
    Path(environment[nodeenv.TOKEN_FILE]).write_text("the next one\n")
    assert settings.token() == "the next one"  # type: ignore[attr-defined]
