"""Where faults come from: by what real frameworks, kernels and executors say, and by all of it."""

import ast
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.driver.core.evidence import words_of_ends
from holdfast.driver.core.evidence.signs import (
    NOTHING,
    SIGNS,
    Verdict,
    judge,
    merged,
    of_gpu,
    of_hypothesis,
    of_kernel,
    of_kind,
    of_line,
)
from holdfast.driver.core.evidence.words_of_ends import of_end
from holdfast.driver.core.faults import root_cause
from holdfast.driver.core.state.fact import Hypothesis
from holdfast.driver.core.state.node import Exited
from holdfast.driver.watch import slow_words
from holdfast.protocol import origins
from holdfast.protocol.faults import Blame, Kind, Origin, Sure, Weight
from holdfast.protocol.kernellines import OOM_KILL, OOM_KILL_OTHER, OOM_KILL_OWN, rule_of
from holdfast.protocol.messages import RankError, RankStatus
from holdfast.protocol.outputs import DEFAULT_RULES
from holdfast.telemetry.analysis.ends import OWN_SIGNALS

CRASHED, RAISED = Kind.RANK_CRASHED, Kind.USER_EXCEPTION


def ended(
    words: str = "",
    *,
    code: int = 1,
    signal: int | None = None,
    exception: str = "",
    traceback: str = "",
    **more: Any,
) -> RankStatus:
    if not exception and "Error" in words[:40]:
        exception = words.partition(":")[0].rpartition(".")[2]
    error = RankError(message=words, exception=exception, traceback=traceback) if words else None
    code_or_none = None if signal else code
    return RankStatus(
        rank=0, state="exited", exit_code=code_or_none, signal=signal, error=error, **more
    )


ENDS = {
    "illegal access": (
        ended("torch.AcceleratorError: CUDA error: an illegal memory access was encountered"),
        (RAISED, Origin.USER, Sure.LIKELY),
    ),
    "an assertion on the device": (
        ended("RuntimeError: CUDA error: device-side assert triggered"),
        (RAISED, Origin.USER, Sure.LIKELY),
    ),
    "memory of a GPU": (
        ended("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."),
        (RAISED, Origin.USER, Sure.LIKELY),
    ),
    "bad memory of a GPU": (
        ended("RuntimeError: CUDA error: uncorrectable ECC error encountered"),
        (RAISED, Origin.GPU, Sure.LIKELY),
    ),
    "no GPU": (
        ended("RuntimeError: CUDA error: no CUDA-capable device is detected"),
        (RAISED, Origin.GPU, Sure.NOT_SURE),  # or its script asks for one that there is not
    ),
    "CUDA, over nothing": (
        ended("RuntimeError: CUDA error: unspecified launch failure"),
        (RAISED, Origin.GPU, Sure.NOT_SURE),
    ),
    "NCCL's watchdog": (
        ended(
            "[rank0]:[E ProcessGroupNCCL.cpp:629] [Rank 0] Watchdog caught collective operation "
            "timeout: WorkNCCL(SeqNum=5, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, "
            "Timeout(ms)=600000) ran for 600029 milliseconds before timing out.",
            signal=6,
        ),
        (CRASHED, Origin.FRAMEWORK, Sure.NOT_SURE),
    ),
    "NCCL on a link that fails": (
        ended(
            "node-3:41:77 [0] NCCL WARN NET/IB : Got completion from peer 10.0.0.4 with "
            "status=12 opcode=0 len=0 vendor err 129",
            signal=6,
        ),
        (CRASHED, Origin.NETWORK, Sure.LIKELY),
    ),
    "no driver": (
        ended(
            "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an "
            "NVIDIA GPU and installed a driver"
        ),
        (RAISED, Origin.GPU, Sure.NOT_SURE),
    ),
    "no GPU to be seen": (
        ended("RuntimeError: No CUDA GPUs are available"),
        (RAISED, Origin.GPU, Sure.NOT_SURE),
    ),
    "two ranks on one GPU": (  # as torch 2.11 said on an H100
        ended(
            "torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/"
            "c10d/NCCLUtils.cpp:93, invalid usage (run with NCCL_DEBUG=WARN for details), NCCL "
            "version 2.28.9"
        ),
        (RAISED, Origin.USER, Sure.LIKELY),
    ),
    "CUDA in NCCL": (
        ended(
            "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:93, unhandled cuda "
            "error (run with NCCL_DEBUG=INFO for details), NCCL version 2.28.9\n"
            "ncclUnhandledCudaError: Call to CUDA function failed."
        ),
        (RAISED, Origin.GPU, Sure.NOT_SURE),
    ),
    "NCCL that lost a peer": (
        ended(
            "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3690, remote "
            "process exited or there was a network error, NCCL version 2.27.5\nncclRemoteError: A "
            "call failed possibly due to a network error or a remote process exiting prematurely."
        ),
        (RAISED, Origin.NETWORK, Sure.LIKELY),
    ),
    "a worker that was killed": (
        ended("RuntimeError: DataLoader worker (pid 4211) is killed by signal: Killed. "),
        (RAISED, Origin.HOST, Sure.NOT_SURE),
    ),
    "a full /dev/shm": (
        ended(
            "RuntimeError: DataLoader worker (pid 4211) is killed by signal: Bus error. It is "
            "possible that dataloader's workers are out of shared memory."
        ),
        (RAISED, Origin.HOST, Sure.LIKELY),
    ),
    "a /dev/shm with no space": (
        ended("OSError: [Errno 28] No space left on device: '/dev/shm/psm_1f2e'"),
        (RAISED, Origin.HOST, Sure.LIKELY),
    ),
    "a tensor that finds no space": (
        ended(
            "RuntimeError: unable to write to file </torch_41_7_0>: No space left on device (28)"
        ),
        (RAISED, Origin.HOST, Sure.LIKELY),
    ),
    "a lock of a DataLoader that finds no space": (
        ended(
            "OSError: [Errno 28] No space left on device",
            traceback='File "train.py", line 22, in <module>\n    for x, y in loader:\n'
            '  File "/usr/lib/python3.11/multiprocessing/synchronize.py", line 57, in __init__\n'
            "    sl = self._semlock = _multiprocessing.SemLock(\n",
        ),
        (RAISED, Origin.HOST, Sure.LIKELY),
    ),
    "a file that finds no space, of a worker with a lock": (
        ended(
            "OSError: [Errno 28] No space left on device",
            traceback='File "/usr/lib/python3.11/multiprocessing/synchronize.py", line 57\n'
            '  File "train.py", line 22, in <module>\n    out.write(row)\n',
        ),
        (RAISED, Origin.STORAGE, Sure.LIKELY),
    ),
    "a file that is not in /dev/shm": (
        ended("FileNotFoundError: [Errno 2] No such file or directory: '/dev/shm/tokens.bin'"),
        (RAISED, Origin.USER, Sure.LIKELY),
    ),
    "a file that torch does not find there": (
        ended("RuntimeError: unable to open file </dev/shm/t.pt>: No such file or directory (2)"),
        (RAISED, Origin.USER, Sure.LIKELY),
    ),
    "a key of the script's": (
        ended("KeyError: could not open shared memory config key"),
        (RAISED, Origin.USER, Sure.LIKELY),
    ),
    "an exception that speaks of itself": (
        ended("retry after TimeoutError in read", exception="TimeoutError"),
        (RAISED, Origin.EXTERNAL, Sure.NOT_SURE),
    ),
    "a bus error": (ended(signal=7), (CRASHED, Origin.HOST, Sure.NOT_SURE)),
    "a full disk": (
        ended("OSError: [Errno 28] No space left on device: '/data/ckpt'"),
        (RAISED, Origin.STORAGE, Sure.LIKELY),
    ),
    "a stale file handle": (
        ended("OSError: [Errno 116] Stale file handle: '/nfs/tokens.bin'"),
        (RAISED, Origin.STORAGE, Sure.LIKELY),
    ),
    "a peer that went away": (
        ended("ConnectionResetError: [Errno 104] Connection reset by peer"),
        (RAISED, Origin.NETWORK, Sure.NOT_SURE),
    ),
    "a service": (
        ended(
            "requests.exceptions.ConnectionError: HTTPSConnectionPool(host='hub', port=443): "
            "Max retries exceeded with url: /api"
        ),
        (RAISED, Origin.EXTERNAL, Sure.LIKELY),
    ),
    "too many files": (
        ended("OSError: [Errno 24] Too many open files"),
        (RAISED, Origin.USER, Sure.LIKELY),
    ),
    "too many files of all processes": (
        ended("OSError: [Errno 23] Too many open files in system"),
        (RAISED, Origin.HOST, Sure.NOT_SURE),
    ),
    "what it imports": (
        ended("ModuleNotFoundError: No module named 'flash_attn'"),
        (RAISED, Origin.USER, Sure.LIKELY),
    ),
    "a mistake": (ended("ValueError: shapes differ"), (RAISED, Origin.USER, Sure.LIKELY)),
    "a loss that is not a number": (
        ended("ValueError: loss is nan at step 1200"),
        (RAISED, None, Sure.NOT_SURE),
    ),
    "a code alone": (ended(code=3), (CRASHED, Origin.USER, Sure.NOT_SURE)),
    "a person's SIGKILL": (ended(signal=9), (CRASHED, None, Sure.NOT_SURE)),
    "a shell's 137": (ended(code=137), (CRASHED, None, Sure.NOT_SURE)),
    "last words before a SIGKILL": (
        ended("CUDA error: out of memory", signal=9),
        (CRASHED, None, Sure.NOT_SURE),
    ),
    "SIGTERM": (ended(signal=15), (CRASHED, Origin.EXTERNAL, Sure.NOT_SURE)),
    "SIGSEGV": (ended(signal=11), (CRASHED, None, Sure.NOT_SURE)),
    "its memory": (
        ended(signal=9, out_of_memory=True),
        (Kind.OUT_OF_MEMORY, Origin.USER, Sure.LIKELY),
    ),
    "exit code 0": (ended(code=0), (Kind.ENDED_EARLY, Origin.USER, Sure.LIKELY)),
}


@pytest.mark.parametrize("case", ENDS)
def test_an_end_is_put_down_to_where_its_words_come_from(case: str) -> None:
    status, (kind, origin, sure) = ENDS[case]
    verdict = judge(of_end(status, kind))
    assert (verdict.origin, verdict.sure) == (origin, sure), verdict.why


OOM = (
    "Memory cgroup out of memory: Killed process 4211 (python) total-vm:9437184kB, "
    "anon-rss:8388608kB, file-rss:0kB, shmem-rss:0kB, UID:1000 pgtables:17000kB oom_score_adj:0"
)


def test_a_line_of_the_kernel_makes_it_sure_or_turns_it() -> None:
    killed = of_end(ended(signal=9), CRASHED)
    rule = rule_of(OOM)
    assert rule == OOM_KILL
    assert judge((*killed, of_kernel(OOM_KILL_OWN, None)))[:2] == (Origin.USER, Sure.LIKELY)
    assert judge((*killed, of_kernel(rule, None)))[:2] == (Origin.HOST, Sure.NOT_SURE)
    assert judge((*killed, of_kernel(OOM_KILL_OTHER, None)))[:2] == (None, Sure.NOT_SURE)
    access, _ = ENDS["illegal access"]
    said = of_end(access, RAISED)
    assert judge((*said, of_kernel("", 31)))[:2] == (Origin.USER, Sure.LIKELY)
    assert judge((*said, of_kernel("", 79)))[:2] == (Origin.GPU, Sure.SURE)
    assert judge((*said, of_kernel("", 63)))[:2] == (Origin.USER, Sure.LIKELY), (
        "a healthy one says it"
    )


def test_two_that_are_likely_and_disagree_are_not_sure() -> None:
    verdict = judge(("disk-full", of_kernel("", 74)))
    assert (verdict.origin, verdict.sure, verdict.blame) == (None, Sure.NOT_SURE, Blame.UNKNOWN)
    assert " or " in verdict.why


def test_what_the_recovery_came_to_believe_counts_more_than_what_is_likely_by_itself() -> None:
    raised = (of_kind(RAISED),)
    assert judge(raised, Hypothesis.NODE)[:2] == (Origin.HOST, Sure.LIKELY)
    assert judge(raised, Hypothesis.PASSING)[:2] == (Origin.USER, Sure.LIKELY)
    assert judge((of_kernel("", 79),), Hypothesis.USER)[:2] == (Origin.GPU, Sure.SURE)


def test_nothing_that_a_rank_prints_is_sure() -> None:
    """It may imitate whatever it likes."""
    for name in words_of_ends.WORDS:
        assert SIGNS[name].sure is not Sure.SURE
        assert SIGNS[f"line-{name}"].sure is Sure.NOT_SURE


def test_a_line_that_a_rank_prints_is_a_hint() -> None:
    line = "[rank3]: OSError: [Errno 28] No space left on device"
    assert judge((words_of_ends.of_line(line),))[:2] == (Origin.STORAGE, Sure.NOT_SURE)
    assert words_of_ends.of_line("step 12 loss 2.31") == ""
    assert words_of_ends.of_line("step 12 loss 2.31", "a rule of the job's") == ""


FOUND = {
    "NVRM: Xid (PCI:0000:3b:00): 79, pid=41": ("an XID", "xid"),
    "File /ckpt/part could only be replicated to 0 nodes": ("HDFS", "hdfs"),
    "Name node is in safe mode.": ("HDFS", "hdfs"),
    "GPU 3: ECC error": ("an error of ECC", "gpu-ecc"),
    "RESOURCE_EXHAUSTED: Out of memory allocating 8 bytes": ("want of memory", "memory"),
    "Fatal Python error: Aborted": ("a crash", "crash"),
    "CUDA error: out of memory": ("an error of CUDA", "gpu-memory"),
}


@pytest.mark.parametrize(("line", "found"), FOUND.items())
def test_a_line_that_a_rule_finds_has_a_sign(line: str, found: tuple[str, str]) -> None:
    rule, sign = found
    assert re.search(DEFAULT_RULES[rule].pattern, line)
    assert words_of_ends.of_line(line, rule) == of_line(sign)
    assert of_line(sign) in SIGNS


def test_each_rule_has_a_sign() -> None:
    names = (rule.sign for rule in DEFAULT_RULES.values())
    assert all(of_line(name) in SIGNS for name in (*names, *words_of_ends.WORDS))


def test_a_name_has_one_meaning() -> None:
    with pytest.raises(ValueError, match="nccl: two signs have one name"):
        merged({"nccl": NOTHING}, {"nccl": NOTHING})


def literals() -> set[str]:
    """Names of signs as the driver's code has them in its text."""
    found = {"not-startable", "lost-peer", "exit-code", *slow_words.SIGNS.values()}
    for path in (Path(__file__).parents[2] / "driver").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.keyword) and node.arg == "sign":
                inside = ast.walk(node.value)
                found |= {str(each.value) for each in inside if isinstance(each, ast.Constant)}
    return found - {""}


def test_a_name_that_is_not_in_the_table_is_nowhere_in_the_code() -> None:
    assert "rendezvous-lost" in literals()
    assert literals() <= SIGNS.keys()
    ends = {name for status, (kind, *_) in ENDS.values() for name in of_end(status, kind)}
    own = {name for signal in OWN_SIGNALS for name in of_end(ended(signal=signal), CRASHED)}
    assert ends | own <= SIGNS.keys()


def test_a_device_s_driver_knows_what_it_is_sure_of() -> None:
    told = {weight: judge((of_gpu(weight),))[:2] for weight in Weight}
    assert told[Weight.CONCLUSIVE] == (Origin.GPU, Sure.SURE)
    assert told[Weight.SUSPECT] == (Origin.GPU, Sure.LIKELY)
    assert told[Weight.REPORT] == (Origin.GPU, Sure.NOT_SURE)


SILENT = {
    *(Kind.RANK_CRASHED, Kind.START_FAILED),  # how a rank ended tells
    *(Kind.HANG, Kind.NO_PROGRESS, Kind.STANDSTILL, Kind.GOES_ON, Kind.UNSEEN, Kind.SEEN_AGAIN),
    *(Kind.LEFT_BEHIND, Kind.MOVES_AGAIN, Kind.DECLINE, Kind.AT_SPEED),
    *(Kind.KERNEL_FAULT, Kind.LOG_KEYWORD),  # their words tell
    *(Kind.STORE_BACK, Kind.STORE_SWEPT, Kind.STORE_SHARED, Kind.SNAPSHOTS_BACK, Kind.KEEPS_PACE),
    *(Kind.RENDEZVOUS_BACK, Kind.LINK_WELL),
    *(Kind.SNAPSHOTS_STOPPED, Kind.SAVE_SKIPPED, Kind.SLOW),
}
"""Kinds that say nothing of where a fault comes from."""


def test_each_kind_has_a_row_but_those_that_say_nothing() -> None:
    assert {each for each in Kind if SIGNS[of_kind(each)] is NOTHING} == SILENT
    assert all(SIGNS[of_hypothesis(each)].why for each in Hypothesis)


names = st.lists(st.sampled_from([*SIGNS, "of another Holdfast"]), max_size=6)
held = st.none() | st.sampled_from(Hypothesis)


@given(names, held, st.randoms())
def test_the_order_of_signs_names_nobody_else(shown: list[str], held: Any, rng: Any) -> None:
    verdict, other = judge(shown, held), judge(rng.sample(shown, len(shown)), held)
    assert verdict[:2] == other[:2]


@given(names, held)
def test_sure_is_only_what_explicit_evidence_says(shown: list[str], held: Any) -> None:
    verdict = judge(shown, held)
    said = {SIGNS[name].origin for name in shown if name in SIGNS and SIGNS[name].sure is Sure.SURE}
    said -= {None}
    assert (verdict.sure is Sure.SURE) == (len(said) == 1)
    if verdict.sure is Sure.SURE:
        assert said == {verdict.origin}


@given(names, held)
def test_who_is_not_sure_accuses_no_machine(shown: list[str], held: Any) -> None:
    verdict = judge(shown, held)
    if verdict.sure is Sure.NOT_SURE:
        assert verdict.blame is not Blame.INFRASTRUCTURE
        assert not verdict.outside_script
    assert verdict.why


@given(names, st.sampled_from(sorted(SIGNS)))
def test_the_same_again_changes_nothing(shown: list[str], name: str) -> None:
    assert judge([*shown, name, name])[:2] == judge([*shown, name])[:2]


@pytest.mark.parametrize(
    ("verdict", "told"),
    [
        (Verdict(Origin.GPU, Sure.SURE, ""), "GPU"),
        (Verdict(Origin.USER, Sure.LIKELY, ""), "likely user code"),
        (Verdict(Origin.NETWORK, Sure.NOT_SURE, ""), "not sure, perhaps network"),
        (Verdict(None, Sure.NOT_SURE, ""), "not sure"),
    ],
)
def test_it_is_told_in_words(verdict: Verdict, told: str) -> None:
    assert origins.told(verdict.origin or "", verdict.sure) == told
    assert origins.told("plasma", Sure.LIKELY) == "likely plasma"


ALONE = {
    Kind.RANK_CRASHED: (None, Sure.NOT_SURE),
    Kind.LINK_DOWN: (Origin.NETWORK, Sure.SURE),
    Kind.COUNTERS: (Origin.NETWORK, Sure.LIKELY),
}


@pytest.mark.parametrize("kind", ALONE)
def test_what_a_kind_alone_tells(kind: Kind) -> None:
    assert judge((of_kind(kind),))[:2] == ALONE[kind]


def test_a_store_is_the_infrastructures() -> None:
    verdict = judge((of_kind(Kind.STORE_FAILED),))
    assert verdict.origin is Origin.STORAGE
    assert verdict.blame is Blame.INFRASTRUCTURE
    assert verdict.outside_script


def test_a_message_that_is_a_sentence_ends_once() -> None:
    said = "RuntimeError: DataLoader worker (pid 7) is killed by signal: Killed. "
    error = RankError(message=said, exception="RuntimeError")
    status = RankStatus(rank=1, state="exited", exit_code=1, error=error)
    told = root_cause.summary(Exited(node="n1", status=status))
    assert told == f"rank 1 on n1 raised {said.rstrip(' .')}"
