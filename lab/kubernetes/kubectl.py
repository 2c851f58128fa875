"""kubectl as a function: what it printed, or what it said instead. Used by `plane` and `given`."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from holdfast.lab.kubernetes.programs import command


class KubectlFailed(Exception):
    """kubectl ended with another exit code than 0; the message is what it said."""


def words(kubeconfig: Path, arguments: Sequence[str]) -> list[str]:
    """The whole command. What it learns of a control plane of ours is kept in that one's folder."""
    ours = kubeconfig.with_name("ca.key").exists()
    cache = [f"--cache-dir={kubeconfig.with_name('kubectl-cache')}"] if ours else []
    return [*command("kubectl"), f"--kubeconfig={kubeconfig}", *cache, *arguments]


def kubectl(
    kubeconfig: Path,
    arguments: Sequence[str],
    *,
    input: str = "",  # noqa: A002 as subprocess calls it
    within_s: float = 60.0,
) -> str:
    """What kubectl printed. Raises `KubectlFailed`, `subprocess.TimeoutExpired`."""
    done = subprocess.run(
        words(kubeconfig, arguments),
        input=input,
        capture_output=True,
        text=True,
        check=False,
        timeout=within_s,
    )
    if done.returncode:
        raise KubectlFailed(done.stderr.strip() or done.stdout.strip())
    return done.stdout
