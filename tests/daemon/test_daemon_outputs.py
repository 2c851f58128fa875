"""What ranks print is read to its end, also when they are gone before anybody looked."""

from pathlib import Path

import pytest
from printing import printed

from holdfast.daemon.samplers import outputs
from holdfast.daemon.samplers.followed import LOOKS_BEHIND, QUIET_LOOKS, Followed
from holdfast.daemon.samplers.outputs import HITS_A_RULE, Outputs
from holdfast.daemon.settings import Settings
from holdfast.kit.patterns import Patterns
from holdfast.protocol.outputs import DEFAULT_RULES, FLOOD

DEFAULTS = tuple(rule.pattern for rule in DEFAULT_RULES.values())


def looking(settings: Settings) -> Outputs:
    return Outputs(settings.paths.outputs, settings.paths.outputs_read)


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


MOST = 1 << 16
NAN = "a loss that is not a number"
SAID = {
    "step 7 loss: nan": NAN,
    "{'loss': nan, 'epoch': 1}": NAN,
    "train_loss=NaN lr=0.1": NAN,
    "grad_norm: nan": NAN,
    "loss        nan": NAN,
    "loss tensor(nan, grad_fn=<DivBackward0>)": NAN,
    "val loss: tensor(nan)": NAN,
    "iteration 7/ 100 | grad norm: nan |": NAN,
    "loss (avg): nan": NAN,
    "loss_total: nan": NAN,
    "RuntimeError: CUDA error: device-side assert triggered": "an error of CUDA",
    "node-1:5:9 [0] NCCL WARN Call to connect failed": "an error of NCCL",
    "ncclUnhandledCudaError: Call to CUDA function failed.": "an error of NCCL",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate": "want of memory",
    "NVRM: Xid (PCI:0000:3b:00): 79": "an XID",
    "an uncorrectable ECC error was met": "an error of ECC",
    "OSError: [Errno 28] No space left on device": "a full disk",
    "OSError: [Errno 122] Disk quota exceeded: '/home/u/x'": "a full disk",
    "OSError: [Errno 116] Stale file handle: '/mnt/data/0007.tar'": "a file system that fails",
    "OSError: [Errno 107] Transport endpoint is not connected": "a file system that fails",
    "touch: cannot touch 'x': Read-only file system": "a file system that fails",
    "Caused by: org.apache.hadoop.hdfs.BlockMissingException: Could not obtain block": "HDFS",
    "hdfsOpenFile(/data/0007.tar): FileSystem#open error:": "HDFS",
    "File /a could only be written to 0 of the 1 minReplication nodes.": "HDFS",
    "Fatal Python error: Segmentation fault": "a crash",
}


@pytest.mark.parametrize(("line", "name"), SAID.items(), ids=SAID.values())
def test_words_before_many_an_end_are_known(line: str, name: str) -> None:
    found = [rule for rule, _ in Patterns(DEFAULTS).found(line)]
    assert DEFAULT_RULES[name].pattern in found


@pytest.mark.parametrize(
    "line",
    [
        "step 7 loss: 2.31 grad_norm 0.4",
        "loss of a nanny",
        "loss 3.1 (no nan seen)",
        "loss scale: 1.0 | grad norm: 0.412 | number of nan iterations: 0 |",
        "using CUDA, errors are fatal",
        "NCCL INFO Bootstrap: Using eth0",
        "skipping 3 batches, the loss scale is 1024",
        "running out of epochs, memory is fine",
        "reading hdfs://name-node:9000/data/0007.tar with org.apache.hadoop.fs",
        "read-only file systems are mounted below /data",
    ],
)
def test_words_of_a_healthy_job_are_no_hit(line: str) -> None:
    assert Patterns(DEFAULTS).found(line) == []


def test_the_source_of_a_frame_is_not_what_a_rank_said(settings: Settings, tmp_path: Path) -> None:
    source = '    if F == "enospc": raise OSError(28, "No space left on device")'
    frame = (
        f'Traceback (most recent call last):\n  File "train.py", line 9, in <module>\n{source}\n'
    )
    said = "OSError: [Errno 28] No space left on device"
    printed(settings, tmp_path, stderr=f"{frame}{said}\n")
    assert [hit.line for hit in looking(settings).hits(0.0)] == [said]


def test_a_rule_of_the_job_is_asked_for_in_every_line(settings: Settings, tmp_path: Path) -> None:
    source = '    raise RuntimeError("an ECC error")'
    printed(
        settings,
        tmp_path,
        stderr=f'  File "train.py", line 9, in <module>\n{source}\n',
        rules=("an ECC",),
    )
    assert [hit.rule for hit in looking(settings).hits(0.0)] == ["an ECC"]


@pytest.mark.parametrize("end", ["\n", ""], ids=["whole", "cut off"])
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_the_last_line_of_a_rank_that_is_gone_is_told(
    settings: Settings, tmp_path: Path, stream: str, end: str
) -> None:
    printed(settings, tmp_path, **{stream: f"loading\nCUDA error: out of luck{end}"})
    looked = looking(settings)
    hits = [hit for _ in range(QUIET_LOOKS + 2) for hit in looked.hits(0.0)]
    assert [(hit.line, hit.always) for hit in hits] == [("CUDA error: out of luck", True)]
    assert hits[0].source == f"rank 0 {stream}"


def test_what_was_there_before_the_rank_began_is_not_its_own(
    settings: Settings, tmp_path: Path
) -> None:
    files = printed(settings, tmp_path, began=20, stdout="an ECC error, of old\n")
    looked = looking(settings)
    assert looked.hits(0.0) == []
    append(files / "stdout.log", "an ECC error, of now\n")
    assert [hit.line for hit in looked.hits(0.1)] == ["an ECC error, of now"]


def test_a_daemon_that_begins_anew_goes_on_where_the_last_one_was(
    settings: Settings, tmp_path: Path
) -> None:
    files = printed(settings, tmp_path, stdout="an ECC error\n")
    assert len(looking(settings).hits(0.0)) == 1
    append(files / "stdout.log", "another ECC error\n")
    assert [hit.line for hit in looking(settings).hits(0.0)] == ["another ECC error"]


def test_a_job_that_is_made_again_under_its_name_is_read_from_its_own_beginning(
    settings: Settings, tmp_path: Path
) -> None:
    looked = looking(settings)
    printed(settings, tmp_path, stdout="a first and long ECC error\n")
    assert len(looked.hits(0.0)) == 1
    (tmp_path / "again").mkdir()
    printed(settings, tmp_path / "again", stdout="an ECC error\n")
    assert [hit.line for hit in looked.hits(0.1)] == ["an ECC error"]


def test_a_rule_that_matches_every_line_is_told_some_times_and_a_default_once(
    settings: Settings, tmp_path: Path
) -> None:
    lines = "".join(f"step {n} ECC error\nstep {n} loss: nan\n" for n in range(100))
    printed(settings, tmp_path, stdout=lines)
    hits = looking(settings).hits(0.0)
    assert len([hit for hit in hits if not hit.always]) == HITS_A_RULE
    assert len([hit for hit in hits if hit.always]) == 1


def test_a_rule_that_matches_everything_hides_no_word_before_an_end(
    settings: Settings, tmp_path: Path
) -> None:
    printed(settings, tmp_path, rules=(".",), stdout="step\n" * 20 + "CUDA error: x\n")
    hits = looking(settings).hits(0.0)
    assert [hit.line for hit in hits if hit.always] == ["CUDA error: x"]


def test_words_behind_a_bar_of_progress_are_found(settings: Settings, tmp_path: Path) -> None:
    bar = "".join(f"\r{n}%|{'#' * 80}" for n in range(100))
    printed(settings, tmp_path, stderr=f"{bar}\rCUDA error: x\n{'y' * 3_000} loss: nan\n")
    first, second = looking(settings).hits(0.0)
    assert first.line == "CUDA error: x"
    assert second.line.endswith("loss: nan")


def test_each_output_is_judged_by_the_rules_of_its_own_job(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outputs, "NOTED_EVERY_S", 0.0)
    looked = looking(settings)
    for epoch, rule in ((1, "one"), (2, "two"), (3, "(broken")):
        printed(settings, tmp_path, epoch=epoch, rules=(rule,), stdout="one two\n")
    assert {(hit.epoch, hit.rule) for hit in looked.hits(0.0)} == {(1, "one"), (2, "two")}


def test_a_file_that_is_cut_is_read_from_its_start(tmp_path: Path) -> None:
    path = tmp_path / "log"
    followed = Followed(path, 0)
    assert followed.block(MOST) == ""
    path.write_text("one\ntw")
    assert (followed.block(MOST), followed.read) == ("one", 4)
    append(path, "o\n")
    assert followed.block(MOST) == "two"
    path.write_text("new\n")
    assert followed.block(MOST) == "new"


FLOODS = {"one line": b"A" * 10_239_999 + b"\n", "lines": b"step 7 loss 2.3\n" * 640_000}


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
def test_of_a_flood_the_first_and_the_last_line_are_found_at_once_and_the_rest_is_counted(
    settings: Settings, tmp_path: Path, flood: bytes
) -> None:
    files = printed(settings, tmp_path, stdout="an XID: Xid (1)\n")
    with (files / "stdout.log").open("ab") as file:
        file.write(flood + b"CUDA error: out of luck\n")
    looked = looking(settings)
    first, second = looked.hits(0.0), looked.hits(0.1)
    assert [hit.rule for hit in first] == ["an XID"]
    assert [hit.rule for hit in second] == ["an error of CUDA", FLOOD]
    assert second[1].line == "9.2 MB at once, skipped but for its ends"
    (said,) = looked.unreadable
    assert said == "rank 0 stdout: 9.2 MB printed too fast to be searched"


def test_a_burst_beside_outputs_of_old_attempts_is_no_flood(
    settings: Settings, tmp_path: Path
) -> None:
    for epoch in range(1, 41):
        (tmp_path / f"{epoch}").mkdir()
        files = printed(settings, tmp_path / f"{epoch}", epoch=epoch, stdout="begins\n")
    looked = looking(settings)
    assert looked.hits(0.0) == []
    append(files / "stdout.log", "CUDA error: out of luck\n" + "step 7 loss 2.3\n" * 15_000)
    assert [hit.rule for hit in looked.hits(0.1)] == ["an error of CUDA"]
    assert looked.unreadable == ()


def test_what_is_printed_slower_than_it_is_searched_is_searched_whole(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("")
    followed = Followed(path, 0)
    for number in range(50):
        append(path, f"{number} {'x' * 90}\n" * LOOKS_BEHIND)
        assert followed.block(200) or number == 0
    while followed.block(200):
        pass
    assert followed.skipped_bytes > 0, "this one was faster"
    slow = Followed(path, 0)
    lines = []
    while block := slow.block(path.stat().st_size):
        lines += block.split("\n")
    assert (len(lines), slow.skipped_bytes) == (50 * LOOKS_BEHIND, 0)


@pytest.mark.parametrize(
    "rule", ["^two$", r"\Atwo", r"two\z", "(?-m:^two)", "(?s)two.*x|two", "wo"]
)
def test_lines_are_found_in_a_block_as_they_are_alone(rule: str) -> None:
    patterns = Patterns((rule,))
    block = "one\ntwo\n\nthree\nand\ttwo\n" * 5
    lines = [line for line in patterns.lines(block, lambda _: True) if patterns.found(line)]
    assert lines == [line for line in block.split("\n") if patterns.found(line)]


def test_a_rule_that_is_told_often_enough_costs_nothing_more(
    settings: Settings, tmp_path: Path
) -> None:
    files = printed(settings, tmp_path, rules=("step",), stdout="step 1\n" * 20)
    looked = looking(settings)
    assert len(looked.hits(0.0)) == HITS_A_RULE
    (output,) = looked._open.values()
    assert list(output._patterns.lines("step 1\n" * 9, output._wanted)) == []
    append(files / "stdout.log", "step 2\n")
    assert looked.hits(0.1) == []


@pytest.mark.parametrize("begun", [True, False], ids=["half read", "never looked at"])
def test_one_that_has_to_end_waits_for_no_end_of_a_line(
    settings: Settings, tmp_path: Path, begun: bool
) -> None:
    files = printed(settings, tmp_path, stdout="x" * 900_000 + "\n" if begun else "")
    looked = looking(settings)
    if begun:
        assert looked.hits(0.0) == []
    append(files / "stdout.log", "y" * 70_000 + "\nCUDA error: out of luck")
    assert [hit.line for hit in looked.last_hits(0.1)] == ["CUDA error: out of luck"]
    assert looked.last_hits(0.2) == []
