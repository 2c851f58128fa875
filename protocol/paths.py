"""Names of the files through which the processes of a node, and of a run, meet. Pure."""

from pathlib import Path

import msgspec


def span_ring(ring: Path) -> Path:
    """Where the rank with this ring writes its spans."""
    return ring.with_suffix(".spans")


class NodePaths(msgspec.Struct, frozen=True):
    """A node's folders. `scratch` is its disk; `memory` is its tmpfs, lost with the node."""

    scratch: Path
    memory: Path

    @property
    def rings(self) -> Path:
        """Two ring files a rank: `JOB.eEPOCH.rRANK.ring`, and `.spans` with what it did when."""
        return self.memory / "rings"

    def ring(self, job: str, epoch: int, rank: int) -> Path:
        return self.rings / f"{job}.e{epoch}.r{rank}.ring"

    @property
    def outputs(self) -> Path:
        """One file a rank and epoch, `outputs.Output`: the executor's word to the daemon."""
        return self.memory / "outputs"

    def output(self, job: str, epoch: int, rank: int) -> Path:
        return self.outputs / f"{job}.e{epoch}.r{rank}.json"

    @property
    def outputs_read(self) -> Path:
        """How far the daemon has read each of them."""
        return self.memory / "outputs.read"

    def slots(self, job: str, rank: int) -> Path:
        """Folder of the memory slots and seals of one rank. Outlives the rank's processes."""
        return self.memory / "slots" / job / f"r{rank}"

    @property
    def kernel_log(self) -> Path:
        """The node's kernel-log feed: lines appended, as /dev/kmsg gives them."""
        return self.scratch / "kmsg"

    @property
    def sys(self) -> Path:
        """Root of the node's /sys tree (`class/infiniband`, `class/net`)."""
        return self.scratch / "sys"

    @property
    def gpus(self) -> Path:
        """An emulated node's GPUs: a folder each, by number, with a file a figure."""
        return self.scratch / "gpus"

    @property
    def executor_state(self) -> Path:
        """What the executor must not forget: the highest term and epoch it has accepted."""
        return self.scratch / "executor.json"


class RunPaths(msgspec.Struct, frozen=True):
    """What a driver, or a `holdfast run`, keeps: its state, and the jobs' logs."""

    root: Path

    @property
    def journal(self) -> Path:
        return self.root / "journal.sqlite"

    @property
    def reserve(self) -> Path:
        """Room that the journal keeps for a full disk while a driver runs."""
        return self.root / "journal.reserve"

    @property
    def lock(self) -> Path:
        """Held by the one driver that uses this state."""
        return self.root / "driver.lock"

    @property
    def address(self) -> Path:
        """JSON with the driver's addresses (`http`, `socket`) and pid, there while it runs."""
        return self.root / "driver.json"

    @property
    def port(self) -> Path:
        """The TCP port that the driver had last; it stays, so that a restart has it again."""
        return self.root / "driver.port"

    @property
    def socket(self) -> Path:
        """The driver's Unix socket, the same application as its TCP port."""
        return self.root / "driver.sock"

    @property
    def driver_log(self) -> Path:
        """What the driver of a `holdfast run` writes, which starts it; others write to stderr."""
        return self.root / "driver.log"

    @property
    def user_token(self) -> Path:
        return self.root / "tokens" / "user"

    @property
    def node_token(self) -> Path:
        return self.root / "tokens" / "node"

    @property
    def ca(self) -> Path:
        """Certificate of the CA that vouches for the driver, PEM, where it has TLS."""
        return self.root / "ca.crt"

    @property
    def jobs(self) -> Path:
        """What the ranks of all jobs write."""
        return self.root / "jobs"

    def job(self, job: str) -> Path:
        return self.jobs / job

    def traces(self, job: str) -> Path:
        """What its ranks did when: a file of spans a node and hour, and packed ones by day."""
        return self.job(job) / "traces"

    def curves(self, job: str) -> Path:
        """Its loss, speed and memory over its life, as its driver noted them."""
        return self.job(job) / "curves.json"

    def rank(self, job: str, attempt: int, rank: int) -> Path:
        """`stdout.log`, `stderr.log`, `forks.jsonl`, `error.json`, what the rank itself leaves."""
        return self.job(job) / f"attempt_{attempt}" / f"rank_{rank}"
