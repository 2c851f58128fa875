"""The Dockerfiles and what they install, as far as it can be tried without Docker."""

import os
import re
import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "deploy" / "docker"))
import wanted  # type: ignore[import-not-found]  # noqa: E402 - a script of the images

SERVICES = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
BUILT = [name for name, service in SERVICES.items() if "build" in service]


def dockerfile(service: str) -> str:
    return (ROOT / str(SERVICES[service]["build"]["dockerfile"])).read_text()


def stages(service: str) -> list[list[str]]:
    """The lines of each stage of its Dockerfile, from its FROM; comments are left out."""
    told = dockerfile(service).split("\nFROM ")[1:]
    return [
        ["FROM " + stage.splitlines()[0], *stage.replace("\\\n", " ").splitlines()[1:]]
        for stage in told
    ]


def test_only_the_driver_goes_without_torch_and_nobody_is_root() -> None:
    assert "pins.txt kubernetes postgres tls" in dockerfile("driver")
    assert "torch" not in dockerfile("driver").partition("\n")[2]
    assert "pins.txt train" in dockerfile("nodes")
    for service in BUILT:
        users = [line for line in stages(service)[-1] if line.startswith("USER ")]
        assert users == ["USER 10001:10001"]


@pytest.mark.parametrize("service", BUILT)
def test_a_change_of_the_sources_makes_one_layer_new_that_has_holdfast_alone(service: str) -> None:
    """The last stage is the libraries' and what a stage beside it installed without them."""
    _, libraries, own, last = stages(service)
    assert libraries[0].endswith(" AS libraries")
    assert own[0] == "FROM libraries AS own"
    assert "COPY . /source" in own
    assert any("--no-deps" in line and "--root /own /source" in line for line in own)
    copies = [line for line in last if line.startswith(("COPY", "RUN", "ADD"))]
    assert last[0] == "FROM libraries"
    assert copies == ["COPY --from=own /own/ /"]


@pytest.mark.parametrize("service", BUILT)
def test_libraries_are_new_only_where_their_list_is(service: str) -> None:
    """Not with each line of pyproject.toml: a version or a rule of the linter is there as well."""
    wanted_stage, libraries, *_ = stages(service)
    assert wanted_stage[0].endswith(" AS wanted")
    copies = [line for line in libraries if line.startswith("COPY")]
    assert copies == ["COPY --from=wanted /wanted/wanted.txt /wanted/kept.txt /wanted/"]


def test_a_base_without_ensurepip_will_do_and_one_that_ends_as_somebody_else() -> None:
    """As many of Debian and Ubuntu are, and those of notebooks."""
    for stage in stages("nodes")[:2]:
        assert stage[1] == "USER 0:0"
    assert any("venv --without-pip" in line for line in stages("nodes")[1])


def test_ranks_have_a_name_and_a_home() -> None:
    """Without: `getpass.getuser()` raises KeyError, and caches are written to root's `/`."""
    made = " ".join(stages("nodes")[1])
    assert "echo holdfast:x:10001:10001::/home/holdfast:/bin/sh >> /etc/passwd" in made
    assert "install -d -o 10001 -g 10001 /var/lib/holdfast /home/holdfast" in made


VENDORS = {
    "torch": "2.9.0a0+vendor",
    "numpy": "2.0.2",
    "psutil": "5.9.8",
    "rich": "15.1.0+v",
    "x": "1",
}
TRAIN = """
[project]
dependencies = ["psutil>=7.0", "rich>=14.0"]
[project.optional-dependencies]
train = ["numpy>=2.0", "torch>=2.9"]
"""


def test_a_vendors_torch_stays_also_one_built_before_its_release() -> None:
    assert wanted.requirements(TRAIN, ["train"], VENDORS) == ["psutil>=7.0", "rich>=14.0"]
    assert wanted.requirements(TRAIN, ["train"], {}) == [
        *("psutil>=7.0", "rich>=14.0"),
        *("numpy>=2.0", "torch>=2.9"),
    ]


@pytest.mark.parametrize("older", ["2.8.1", "2.4", "2.8.0a0+vendor.10"])
def test_a_vendors_torch_that_is_too_old_is_said_before_anything_is_installed(older: str) -> None:
    with pytest.raises(
        ValueError, match=f"torch {re.escape(older)}, and Holdfast needs torch>=2.9"
    ):
        wanted.requirements(TRAIN, ["train"], {"torch": older})


def test_of_a_base_what_is_new_enough_stays_and_the_pin_takes_the_place_of_what_is_not() -> None:
    """`<=` the newer of the two: pip leaves what is there while it meets every requirement."""
    pins = "psutil==7.2.2\nrich==15.0.0\ntorch==2.15.0\nxxhash==4.1.0\n"
    assert wanted.constraints(pins, VENDORS) == [
        "psutil<=7.2.2",
        "rich<=15.1.0",
        "torch<=2.15.0",
        "xxhash==4.1.0",
    ]
    assert wanted.constraints(pins, {}) == pins.split()
    assert wanted.normal("Typing_Extensions") == "typing-extensions"


@given(one=st.lists(st.integers(0, 99), min_size=1), other=st.lists(st.integers(0, 99), min_size=1))
def test_versions_are_compared_by_their_numbers(one: list[int], other: list[int]) -> None:
    def bare(parts: list[int]) -> list[int]:
        return parts[: max((at + 1 for at, part in enumerate(parts) if part), default=0)]

    told = [".".join(map(str, parts)) for parts in (one, other)]
    older = wanted.release(told[0]) < wanted.release(told[1] + "rc1+vendor")
    assert older == (bare(one) < bare(other))


def test_the_extras_that_images_install_are_there() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    train = wanted.requirements(project, ["train"], {})
    assert {"torch>=2.9", "msgspec>=0.20"} <= set(train)
    assert not [line for line in wanted.requirements(project, ["tls"], {}) if "torch" in line]


def test_the_context_has_all_that_is_installed_and_nothing_of_the_users() -> None:
    """`.env` has the journal's password, and `work` the jobs' checkpoints, as compose has them."""
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    for link in (ROOT / "src" / "holdfast").iterdir():
        if link.is_symlink():
            assert os.readlink(link).split("/")[-1] not in ignored
    assert {".venv*", ".git", ".env", "work", "runs"} <= set(ignored)
    copied = [line for stage in stages("nodes") for line in stage if line.startswith("COPY py")]
    assert "!deploy/docker/wanted.py" in ignored
    assert "deploy/docker/wanted.py" in copied[0]
