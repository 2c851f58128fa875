"""The binary is built once, whole or not at all. A stand-in for Go, so that it takes no minutes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import eventually

from holdfast.lab.kubernetes.build import KWOK, BuildFailed, NotHere, build, cached
from holdfast.lab.kubernetes.programs import command

GO = """#!/bin/sh
[ "$1" = list ] && { echo "$MODULE"; exit; }
[ "$1" = mod ] && { [ ! -e "$OFFLINE" ] || { echo "dial tcp: no route" >&2; exit 1; }; exit; }
echo started >> "$STARTS"
while [ "$1" != -o ]; do shift; done
while [ -e "$HOLD" ]; do sleep 0.01; done
echo k8s.io/kubernetes >&2
mkdir -p "${2%/*}" && printf '#!/bin/sh\\n' > "$2"
"""
BROKEN = "#!/bin/sh\n[ $1 = mod ] && exit; echo 'main.go:1: no such package' >&2; exit 1\n"


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The compiler's stand-in, in front of all others; the cache is empty."""
    stand_in = tmp_path / "bin" / "go"
    stand_in.parent.mkdir()
    stand_in.write_text(GO)
    stand_in.chmod(0o755)
    monkeypatch.setenv("PATH", f"{stand_in.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("STARTS", str(tmp_path / "starts"))
    monkeypatch.setenv("HOLD", str(tmp_path / "hold"))
    monkeypatch.setenv("OFFLINE", str(tmp_path / "offline"))
    monkeypatch.setenv("MODULE", str(tmp_path / "module"))
    for file in KWOK.files:
        (tmp_path / "module" / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "module" / file).touch()
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    return stand_in


def starts(go: Path) -> int:
    told = go.parent.parent / "starts"
    return len(told.read_text().splitlines()) if told.exists() else 0


def test_it_is_built_once_and_tells_how_far_it_is(go: Path) -> None:
    said: list[str] = []
    binary = build(said.append)
    assert binary == cached() == Path(command("kubectl")[0])
    assert build(said.append) == binary
    assert starts(go) == 1
    assert str(binary.parent) in said[1]
    assert "1 of up to" in said[-1]


def test_two_builders_at_once_build_it_once_and_the_second_says_that_it_waits(go: Path) -> None:
    hold = go.parent.parent / "hold"
    hold.touch()
    words = [sys.executable, "-m", "holdfast.lab.kubernetes.build"]
    builders = [subprocess.Popen(words, stderr=subprocess.PIPE, text=True)]
    eventually(lambda: starts(go) == 1, "the first builds")
    builders.append(subprocess.Popen(words, stderr=subprocess.PIPE, text=True))
    waiting = builders[1].stderr
    assert waiting is not None
    assert "waiting for somebody else's build" in waiting.readline()
    hold.unlink()
    for builder in builders:
        builder.communicate(timeout=60)
        assert builder.returncode == 0
    assert starts(go) == 2, "Kubernetes and kwok, each once"
    assert all((cached(KWOK).parent / file).exists() for file in KWOK.files)
    assert command("kwok") == [str(cached(KWOK))]


def test_a_build_that_fails_says_why_and_leaves_nothing_behind(go: Path) -> None:
    go.write_text(BROKEN)
    with pytest.raises(BuildFailed, match="no such package"):
        build(lambda _: None)
    assert [left.suffix for left in cached().parent.parent.iterdir()] == [".lock"]


def test_without_a_network_it_is_said_what_could_not_be_fetched(go: Path) -> None:
    (go.parent.parent / "offline").touch()
    with pytest.raises(NotHere, match="could not be fetched: dial tcp: no route"):
        build(lambda _: None)
    assert starts(go) == 0


def test_without_go_and_without_assets_it_is_said_what_is_missing(
    go: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go.unlink()
    monkeypatch.setenv("PATH", str(go.parent))
    with pytest.raises(NotHere, match="there is no Go here"):
        build(lambda _: None)
    with pytest.raises(NotHere, match=r"kubectl is not here.*make control-plane"):
        command("kubectl")


def test_any_kubectl_will_do_until_ours_is_built(
    go: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    theirs = tmp_path / "theirs" / "kubectl"
    theirs.parent.mkdir()
    theirs.touch(mode=0o700)
    monkeypatch.setenv("PATH", f"{theirs.parent}:{os.environ['PATH']}")
    assert command("kubectl") == [str(theirs)]
    with pytest.raises(NotHere, match="etcd is not here"):
        command("etcd")
    built = build(lambda _: None)
    assert command("kubectl") == [str(built), "kubectl"]


def test_an_envtest_folder_comes_before_what_we_build(
    go: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assets = tmp_path / "assets"
    assets.mkdir()
    (assets / "etcd").touch()
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))
    assert command("etcd") == [str(assets / "etcd")]
    built = build(lambda _: None)
    assert command("kube-scheduler") == [str(built), "kube-scheduler"]
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "nowhere"))
    with pytest.raises(NotHere, match="no folder"):
        command("etcd")
