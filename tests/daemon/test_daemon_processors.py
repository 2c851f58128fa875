"""For how long a process is kept from the processors, from files as the kernel writes them."""

import os
from pathlib import Path

import pytest

from holdfast.daemon.samplers import processes
from holdfast.daemon.samplers.processors import Processors


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(processes, "PROC", tmp_path / "proc")
    (tmp_path / "proc/7").mkdir(parents=True)
    (tmp_path / "proc/7/schedstat").write_text("12 2500000000 9\n")
    return tmp_path / "proc/7"


def limited(folder: Path, text: str) -> None:
    folder.mkdir(parents=True)
    (folder / "cpu.stat").write_text(text)


def test_of_the_second_version_all_levels_count(proc: Path, tmp_path: Path) -> None:
    groups = tmp_path / "cgroup"
    (proc / "cgroup").write_text("0::/pods/one\n")
    limited(groups / "pods", "usage_usec 5\nnr_throttled 1\nthrottled_usec 1000000\n")
    limited(groups / "pods/one", "throttled_usec 250000\n")
    assert Processors(7, cgroups=groups).withheld_s() == (2.5, 1.25)


def test_of_the_first_version_that_of_the_processors_counts(proc: Path, tmp_path: Path) -> None:
    groups = tmp_path / "cgroup"
    (proc / "cgroup").write_text("4:memory:/one\n2:cpu,cpuacct:/one\n")
    limited(groups / "cpu,cpuacct/one", "nr_periods 4\nthrottled_time 500000000\n")
    limited(groups / "memory/one", "throttled_time 900000000\n")
    assert Processors(7, cgroups=groups).withheld_s() == (2.5, 0.5)


@pytest.mark.parametrize("text", ["", "\xff\x00", "1", "a b c", "-1 -2", "1 " + "9" * 5_000])
def test_what_the_kernel_does_not_tell_is_nothing(proc: Path, tmp_path: Path, text: str) -> None:
    (proc / "schedstat").write_text(text, encoding="latin-1")
    (proc / "cgroup").write_text(text, encoding="latin-1")
    assert Processors(7, cgroups=tmp_path).withheld_s() == (0.0, 0.0)


def test_a_process_that_is_gone_is_kept_from_nothing() -> None:
    assert Processors(2**22 + 1).withheld_s() == (0.0, 0.0)


def test_this_process_has_waited_for_a_processor_for_no_less_than_before() -> None:
    mine = Processors(os.getpid())
    before_s, _ = mine.withheld_s()
    assert mine.withheld_s()[0] >= before_s >= 0
