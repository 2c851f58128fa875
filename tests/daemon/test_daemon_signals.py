"""What the kernel log and DCGM mean for a Node's conditions, without either and without a Node."""

from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.daemon.samplers.logs import KernelLog
from holdfast.daemon.samplers.tail import KernelMessages, Tail
from holdfast.daemon.signals.conditions import LONGEST, Condition, Seen, due
from holdfast.daemon.signals.findings import FIELDS, Found, of_dcgm, of_kernel
from holdfast.daemon.signals.settings import read
from holdfast.protocol.messages import LogHit
from holdfast.protocol.nodeenv import BadSettings
from holdfast.protocol.xids import CONDITIONS, HARDWARE_FAULT, XID_ERRORS, XIDS

LINE = "NVRM: Xid (PCI:0000:3b:00): {}, pid=1, name=python"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Lines:
    """A source that gives each of its lines once."""

    def __init__(self, *lines: str) -> None:
        self._lines = list(lines)

    def lines(self) -> list[str]:
        given, self._lines = self._lines, []
        return given


def found_in(*lines: str) -> list[Found | None]:
    return [of_kernel(hit) for hit in KernelLog(Lines(*lines)).hits(0.0)]  # type: ignore[arg-type]


# ---------------------------------------------------------------- the kernel log


@pytest.mark.parametrize(
    ("xid", "condition"),
    [
        *((xid, HARDWARE_FAULT) for xid in (48, 79, 95, 119, 120)),
        *((xid, XID_ERRORS) for xid in (64, 74, 154)),
        *((xid, None) for xid in (13, 31, 43, 63, 94, 0, 999_999_999)),
    ],
)
def test_an_xid_that_weighs_enough_is_said_and_one_of_the_users_is_not(
    xid: int, condition: str | None
) -> None:
    (found,) = found_in(LINE.format(xid))
    if condition is None:
        assert found is None
        return
    assert found is not None
    assert (found.condition, found.reason) == (condition, f"Xid{xid}")
    assert found.message == f"{XIDS[xid][0]}: {LINE.format(xid)}"


def test_other_words_of_the_kernel_are_told_where_they_make_a_suspect_or_more() -> None:
    lost = "NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus."
    dead = "mlx5_core 0000:5e:00.0: poll_health:795:(pid 0): Fatal error 1 detected"
    killed = "Out of memory: Killed process 4242 (python) total-vm:9GB"
    assert found_in(lost, dead, killed) == [
        (HARDWARE_FAULT, "GpuLost", f"GPU has fallen off the bus: {lost}"),
        (XID_ERRORS, "Mlx5Dead", f"a NIC's firmware does not answer: {dead}"),
        None,
    ]


def test_of_a_record_of_the_device_the_kernels_words_are_told_and_no_programs() -> None:
    (found,) = found_in(f"4,1234,5140900,-;{LINE.format(79)}")
    assert found is not None
    assert found.message.endswith(f": {LINE.format(79)}")
    assert found_in(f"12,1235,5140901,-;{LINE.format(79)}") == [], "priority 8 and more"


def test_a_number_that_no_xid_has_is_no_hit() -> None:
    assert found_in(LINE.format("9" * 5_000)) == []


@given(st.text(), st.integers())
def test_no_line_of_a_kernel_log_is_too_odd(text: str, number: int) -> None:
    for line in (text, LINE.format(text), LINE.format(number), f"{number},{text};{LINE.format(7)}"):
        found_in(line)
    of_kernel(LogHit(source="kernel", rule="xid", line=text, xid=number))


def test_the_kernels_own_log_is_read_from_its_oldest_record() -> None:
    """Where this machine's may be read: an XID told while nobody listened is heard later."""
    old = KernelMessages(old_too=True).lines()
    if not old:
        pytest.skip("the kernel log cannot be read here, or is empty")
    assert len(KernelMessages().lines()) < len(old)


# ---------------------------------------------------------------- DCGM


def exported(field: str, value: object, *, gpu: int = 3, node: str = "node-1") -> str:
    """As dcgm-exporter writes it."""
    labels = f'gpu="{gpu}",UUID="GPU-{gpu}",device="nvidia{gpu}",Hostname="{node}"'
    labels += ',err_msg="a, \\"b\\""'
    return f"# HELP {field} words.\n# TYPE {field} gauge\n{field}{{{labels}}} {value}\n"


@pytest.mark.parametrize(
    ("field", "value", "condition", "reason"),
    [
        ("DCGM_FI_DEV_XID_ERRORS", 79, HARDWARE_FAULT, "Xid79"),
        ("DCGM_FI_DEV_XID_ERRORS", 74, XID_ERRORS, "Xid74"),
        ("DCGM_FI_DEV_ROW_REMAP_FAILURE", 1, XID_ERRORS, "Xid64"),
        ("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", 2, XID_ERRORS, "DoubleBitErrors"),
    ],
)
def test_a_fault_that_dcgm_knows_is_told_with_its_gpu(
    field: str, value: int, condition: str, reason: str
) -> None:
    (found,) = of_dcgm(exported(field, 0, gpu=1) + exported(field, value), "node-1")
    assert (found.condition, found.reason) == (condition, reason)
    assert "GPU 3" in found.message


@pytest.mark.parametrize("value", [0, 31, "NaN", "+Inf", 0x7FFFFFF0, 0x7FFFFFFFFFFFFFF0, -1])
def test_a_value_that_dcgm_does_not_know_is_no_fault(value: object) -> None:
    assert of_dcgm(exported("DCGM_FI_DEV_XID_ERRORS", value), "node-1") == []
    assert of_dcgm(exported("DCGM_FI_DEV_ROW_REMAP_FAILURE", 0), "node-1") == []


def test_what_the_exporter_of_another_node_says_is_refused() -> None:
    """A Service that leads anywhere would have this node evicted for the fault of another."""
    with pytest.raises(ValueError, match="it speaks of node-2, not of node-1"):
        of_dcgm(exported("DCGM_FI_DEV_XID_ERRORS", 79, node="node-2"), "node-1")
    with pytest.raises(ValueError, match="a node without Hostname"):
        of_dcgm("DCGM_FI_DEV_XID_ERRORS 79\n", "node-1")


def test_an_exporter_without_our_fields_is_said_and_garbage_in_others_is_no_matter() -> None:
    with pytest.raises(ValueError, match="it has none of DCGM_FI_DEV_XID_ERRORS, "):
        of_dcgm("<html>not here</html>", "node-1")
    text = "DCGM_FI_DEV_GPU_UTIL{{{ garbage\n" + exported("DCGM_FI_DEV_XID_ERRORS", 79)
    assert [each.reason for each in of_dcgm(text, "node-1")] == ["Xid79"]


@given(st.sampled_from(FIELDS), st.text(), st.text('{}"\\=,# \t0e.', max_size=20))
def test_no_text_of_an_exporter_is_too_odd(field: str, text: str, odd: str) -> None:
    for said in (text, field + text, field + odd, field + '{gpu="' + odd, f"{field}{{{odd}}} 1"):
        with suppress(ValueError):
            of_dcgm(said, "node-1")


# ---------------------------------------------------------------- conditions

GONE = Found(HARDWARE_FAULT, "Xid79", "GPU has fallen off the bus: …")


def seen(*conditions: Condition) -> dict[str, Seen]:
    """As a Node has them afterwards."""
    return {
        each["type"]: Seen(
            type=each["type"],
            status=each["status"],
            message=each["message"],
            last_transition_time=each["lastTransitionTime"],
        )
        for each in conditions
    }


def told(
    had: Mapping[str, Seen], *found: Found, boot: str = "a", after_s: float = 0
) -> list[Condition]:
    by_condition = {each.condition: each for each in found}
    return due(had, by_condition, boot=boot, now=NOW + timedelta(seconds=after_s))


def test_a_node_of_which_nothing_was_said_gets_both_conditions_at_once() -> None:
    first = told({}, GONE)
    assert [(each["type"], each["status"], each["reason"]) for each in first] == [
        (HARDWARE_FAULT, "True", "Xid79"),
        (XID_ERRORS, "False", "NoXid"),
    ]
    assert {each["lastTransitionTime"] for each in first} == {"2026-01-01T00:00:00Z"}
    assert told(seen(*first), GONE) == [], "nothing is written where nothing is new"


def test_a_fault_outlives_a_restart_of_its_teller_and_not_one_of_its_node() -> None:
    had = seen(*told({}, GONE))
    assert told(had) == []
    after = told(had, boot="b", after_s=60)
    assert [each["status"] for each in after] == ["False", "False"]
    changed, same = after
    assert changed["lastTransitionTime"] == "2026-01-01T00:01:00Z"
    assert same["lastTransitionTime"] == "2026-01-01T00:00:00Z"
    assert same["lastHeartbeatTime"] == "2026-01-01T00:01:00Z"


def test_a_fault_that_comes_later_is_a_transition() -> None:
    had = seen(*told({}))
    (later,) = told(had, GONE, after_s=5)
    assert (later["status"], later["lastTransitionTime"]) == ("True", "2026-01-01T00:00:05Z")


def test_what_another_detector_says_is_not_taken_back() -> None:
    theirs = {XID_ERRORS: Seen(type=XID_ERRORS, status="True", message="Xid 74 by others")}
    assert [each["type"] for each in told(theirs)] == [HARDWARE_FAULT]


def test_a_fault_that_a_person_took_off_is_told_again_only_when_it_is_seen_again() -> None:
    had = seen(*({**each, "status": "False"} for each in told({}, GONE)))
    assert told(had) == []
    assert [each["status"] for each in told(had, GONE)] == ["True"]


@given(st.text(max_size=2_000), st.text(max_size=20))
def test_a_message_is_short_and_names_its_boot(message: str, reason: str) -> None:
    (made, _) = told({}, Found(HARDWARE_FAULT, reason, message), boot="b-1")
    assert made["message"].endswith(" [boot b-1]")
    assert len(made["message"]) <= LONGEST + len(" [boot b-1]")


def test_each_condition_is_one_that_is_written() -> None:
    assert {each["type"] for each in told({})} == {*CONDITIONS.values()}


# ---------------------------------------------------------------- settings

POD = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}


def test_the_api_server_is_that_of_the_pod(tmp_path: Path) -> None:
    (tmp_path / "log").touch()
    words = ["--node", "n", "--kernel-log", str(tmp_path / "log")]
    assert read(words, POD).api_server == "https://[fd00::1]:6443"
    with pytest.raises(BadSettings, match="this is no pod: give --api-server"):
        read(words, {})


def test_a_kernel_log_that_cannot_be_read_is_said_with_what_to_do(tmp_path: Path) -> None:
    words = ["--node", "n", "--kernel-log", str(tmp_path / "none")]
    with pytest.raises(BadSettings, match=r"No such file or directory\. Mount .*run privileged"):
        read(words, POD)


def test_a_file_of_lines_is_followed_from_its_end(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(LINE.format(79) + "\n")
    log = KernelLog(Tail(path))
    assert log.hits(0.0) == []
    with path.open("a") as file:
        file.write(LINE.format(48) + "\n")
    assert [hit.xid for hit in log.hits(0.0)] == [48]
