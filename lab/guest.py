"""Holdfast on a cluster that a person gives, for as long as a `with`: then nothing of it is there.

Called by the demo and chaos where `--kubeconfig` is given. What a laboratory makes there has its
label or is named in manifests, and is found by looking. Must not touch what was there before.
"""

import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.lab.emulator.kubelet.joined import role
from holdfast.lab.kubernetes import marks
from holdfast.lab.kubernetes.given import GivenCluster, checked
from holdfast.lab.kubernetes.kubeconfigs import Unusable
from holdfast.lab.kubernetes.kubectl import kubectl
from holdfast.lab.on_kubernetes import install, manifests

OURS = re.compile(r"(node|lease.coordination.k8s.io)/node-\d+$")
"""As the emulated nodes are named, and their leases."""
LEASES = "kube-node-lease"
MARKED = ("--selector", marks.RUN)
SHOWN = 3
GONE_WITHIN_S = 150.0
LOOK_S = 0.5

Say = Callable[[str], None]


class Left(Exception):
    """Something of ours is still in the cluster; the message says what."""


def free(kubeconfig: Path) -> None:
    """Raise `Unusable` where we are not its cluster's admin, or what we make is there already."""
    checked(kubeconfig)
    there = found(lambda *words, **more: kubectl(kubeconfig, words, **more))
    if there:
        some = ", ".join(there[:SHOWN]) + ", …" * (len(there) > SHOWN)
        what = f"the cluster of {kubeconfig} has a Holdfast, or a laboratory of it"
        raise Unusable(f"{what}: {some}. Remove that, or give another cluster.")


@contextmanager
def guest(kubeconfig: Path, folder: Path, say: Say) -> Iterator[GivenCluster]:
    """Installed there, with our identities in `folder`; removed at the end, however it comes.

    Raises `Unusable`, `KubectlFailed`; `Left` where something could not be removed.
    """
    free(kubeconfig)
    with GivenCluster(kubeconfig, folder) as given:
        try:
            install(given)
            yield given
        finally:
            say(f"removing what was made at {given.url}")
            with _undisturbed():
                _remove(given)


def sweep(given: GivenCluster) -> None:
    """Remove what laboratories made there. Their nodes are gone: nobody else would end the pods."""
    spaces = given.kubectl("get", "namespaces", *MARKED, "-o", "name").split()
    for space in spaces:
        name = space.partition("/")[2]
        given.kubectl("-n", name, "delete", "pods", "--all", "--force", "--grace-period=0")
    given.kubectl("delete", "namespaces,nodes,csr", *MARKED, "--wait=false")


def found(ask: Callable[..., str]) -> list[str]:
    """What of Holdfast and of laboratories a cluster has, by kind and name; `ask`: its kubectl."""
    named = ask("get", *manifests(), "--filename=-", *QUIETLY, input=role())
    marked = ask("get", "namespaces,nodes,csr", *MARKED, *QUIETLY)
    nodes = ask("get", "nodes", *QUIETLY) + ask("-n", LEASES, "get", "leases", *QUIETLY)
    ours = [name for name in nodes.split() if OURS.match(name)]
    return sorted({*named.split(), *marked.split(), *ours})


QUIETLY = ("--ignore-not-found", "-o", "name")


def _remove(given: GivenCluster) -> None:
    sweep(given)
    all_named = (*manifests(), "--filename=-")
    given.kubectl("delete", *all_named, "--ignore-not-found", "--wait=false", input=role())
    deadline_s = time.monotonic() + GONE_WITHIN_S
    while left := found(given.kubectl):
        if time.monotonic() > deadline_s:
            raise Left(f"still at {given.url} after {GONE_WITHIN_S:g} s: {', '.join(left)}")
        time.sleep(LOOK_S)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """A second Ctrl-C, which programs that we start hear as well, would leave half of it."""
    before = {each: signal.signal(each, signal.SIG_IGN) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
