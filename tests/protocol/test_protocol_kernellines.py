"""Lines as kernels and drivers print them: each is found by its rule, a healthy node's by none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.protocol.faults import Weight
from holdfast.protocol.kernellines import RULES, meaning, rule_of

BUS = "fallen off the bus"
MC = "CPU_SrcID#0_Ha#0_Chan#1_DIMM#0 (channel:1 slot:0 page:0x4d2 offset:0x0 grain:32)"
PCIE = "pcieport 0000:60:05.0: PCIe Bus Error: severity="
RECORDED = {
    f"NVRM: GPU 0000:3b:00.0: GPU has {BUS}.": "gpu-lost",
    f"NVRM: GPU at PCI:0000:3b:00: GPU has {BUS} and is not responding to commands.": "gpu-lost",
    "NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x26:0xffff:1290)": "gpu-not-started",
    "nvidia-nvswitch0: SXid (PCI:0000:85:00.0): 20034, Fatal, Link 30 LTSSM Fault Up": (
        "nvswitch-fatal"
    ),
    "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 28006, Non-fatal, Link 46 MC TS": "nvswitch",
    f"EDAC MC0: 1 UE memory read error on {MC}": "memory-uncorrected",
    "EDAC MC1: 1 UE on unknown memory (csrow:0 channel:0)": "memory-uncorrected",
    f"EDAC MC0: 2 CE memory read error on {MC}": "memory-corrected",
    "Memory failure: 0x4d2a1: Killing python:4242 due to hardware memory corruption": (
        "memory-uncorrected"
    ),
    "{1}[Hardware Error]: event severity: fatal": "memory-uncorrected",
    "{7}[Hardware Error]: event severity: corrected": "memory-corrected",
    "mce: [Hardware Error]: Machine check events logged": "memory-corrected",
    f"{PCIE}Uncorrected (Fatal), type=Transaction Layer, (Receiver ID)": "pcie-fatal",
    f"{PCIE}Uncorrectable (Fatal), type=Data Link Layer, (Transmitter ID)": "pcie-fatal",
    f"{PCIE}Uncorrected (Non-Fatal), type=Transaction Layer, (Requester ID)": "pcie",
    f"{PCIE}Corrected, type=Physical Layer, (Receiver ID)": "pcie",
    "pcieport 0000:60:05.0: AER: Multiple Corrected error received: 0000:60:05.0": "pcie",
    "mlx5_core 0000:5e:00.0: poll_health:795:(pid 0): device's health compromised - reached miss "
    "count": "mlx5-dead",
    "mlx5_core 0000:5e:00.0: poll_health:770:(pid 0): Fatal error 1 detected": "mlx5-dead",
    "mlx5_core 0000:5e:00.0: print_health_info:431:(pid 0): Health issue observed, firmware "
    "internal error, severity(3) ERROR:": "mlx5",
    "mlx5_core 0000:5e:00.0: cmd_work_handler:1020:(pid 9): QUERY_HCA_CAP(0x100) timeout. Will "
    "cause a leak of a command resource": "mlx5",
    "mlx5_core 0000:5e:00.0: temp_warn:131:(pid 0): High temperature on sensors with bit set 0 1": (
        "mlx5"
    ),
    "nvme nvme0: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0x10": "disk",
    "nvme nvme0: I/O 17 QID 1 timeout, aborting": "disk",
    "nvme nvme0: I/O tag 386 (9182) opcode 0x2 (I/O Cmd) QID 4 timeout, reset controller": "disk",
    "nvme nvme0: Disabling device after reset failure: -19": "nvme-dead",
    "nvme nvme1: Removing after probe failure status: -19": "nvme-dead",
    "blk_update_request: I/O error, dev sdb, sector 1234 op 0x0:(READ)": "disk",
    "critical medium error, dev nvme1n1, sector 52 op 0x0:(READ) flags 0x0": "disk",
    "EXT4-fs error (device sda1): ext4_find_entry:1455: inode #2: comm python: reading directory": (
        "file-system"
    ),
    "EXT4-fs (sda1): Remounting filesystem read-only": "file-system",
    "XFS (nvme0n1p1): Corruption of in-memory data (0x8) detected": "file-system",
    "XFS (nvme0n1p1): log I/O error -5": "file-system",
    "nfs: server files.example.org not responding, still trying": "nfs",
    "Out of memory: Killed process 4242 (python) total-vm:9GB, anon-rss:8GB": "oom-kill",
    "Memory cgroup out of memory: Killed process 4242 (python) total-vm:9GB": "oom-kill",
    "Out of memory: Kill process 4242 (python) score 901 or sacrifice child": "oom-kill",
    "INFO: task python:4242 blocked for more than 120 seconds.": "hung-task",
    "watchdog: BUG: soft lockup - CPU#7 stuck for 22s! [python:4242]": "lockup",
    "rcu: INFO: rcu_sched self-detected stall on CPU": "lockup",
    "NMI watchdog: Watchdog detected hard LOCKUP on cpu 3": "lockup",
    "BUG: unable to handle page fault for address: ffffb2c0": "kernel-bug",
    "Kernel panic - not syncing: Fatal exception": "kernel-bug",
    "CPU3: Package temperature above threshold, cpu clock throttled (total events = 12)": "cpu-hot",
}
HEALTHY = [
    "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.82.09",
    "EDAC MC0: Giving out device to module skx_edac controller Skylake Socket#0 IMC#0",
    "mlx5_core 0000:5e:00.0: firmware version: 28.39.1002",
    "mlx5_core 0000:5e:00.0 enp94s0f0np0: Link up",
    "nvme nvme0: Shutdown timeout set to 10 seconds",
    "nvme nvme0: 16/0/0 default/read/poll queues",
    "EXT4-fs (sda1): mounted filesystem with ordered data mode",
    "XFS (nvme0n1p1): Ending clean mount",
    "nfs: server files.example.org OK",
    "python[4242]: segfault at 0 ip 00007f sp 00007f error 4 in libtorch.so",
    "pcieport 0000:60:05.0: AER: enabled with IRQ 30",
    "mce: CPU0: Thermal monitoring enabled (TM1)",
    "rcu: Hierarchical RCU implementation.",
    "audit: type=1400 apparmor=ALLOWED",
]


@pytest.mark.parametrize(("line", "rule"), RECORDED.items(), ids=range(len(RECORDED)))
def test_a_recorded_line_is_found_by_its_rule(line: str, rule: str) -> None:
    assert rule_of(line) == rule


@pytest.mark.parametrize("line", HEALTHY, ids=range(len(HEALTHY)))
def test_what_a_healthy_node_says_is_nothing(line: str) -> None:
    assert rule_of(line) is None


def test_each_rule_has_a_recorded_line() -> None:
    assert set(RECORDED.values()) == RULES.keys()


def test_only_what_names_its_hardware_weighs_more_than_a_report() -> None:
    weights = {name: meaning(name, None).weight for name in RULES}
    assert [name for name, weight in weights.items() if weight is Weight.CONCLUSIVE] == ["gpu-lost"]
    assert {name for name, weight in weights.items() if weight is Weight.SUSPECT} == {
        "gpu-not-started",
        "nvswitch-fatal",
        "memory-uncorrected",
        "pcie-fatal",
        "mlx5-dead",
        "nvme-dead",
    }
    assert Weight.RESTART not in weights.values()


FRAGMENTS = [f" {word} " for line in RECORDED for word in line.split()] + list(RECORDED)


@given(st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=15)).map("".join), st.integers(0, 99))
def test_a_program_that_calls_itself_like_a_fault_speaks_for_no_kernel(name: str, at: int) -> None:
    comm = name[at : at + 15]  # TASK_COMM_LEN is 16, with its end
    for line in (
        f"Out of memory: Killed process 1 ({comm}) total-vm:9GB",
        f"INFO: task {comm}:1 blocked for more than 120 seconds.",
        f"{comm}[1]: segfault at 0 ip 0 sp 0 error 4",
    ):
        rule = rule_of(line)
        assert rule is None or meaning(rule, None).weight is Weight.REPORT


def test_a_rule_of_a_newer_daemon_is_a_report() -> None:
    assert meaning("not-known-yet", None)[1:] == (Weight.REPORT, None)
