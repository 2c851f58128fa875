"""The keeper: starts nodes, reads their leases, remembers allocations and marks, tells facts.

Run by `keeper.main` (nodes of this machine) and by the emulator (nodes of namespaces). Synchronous
and single-threaded: the server and the loop call it. Must not decide about jobs, and learns whether
a node is there from the node's lease alone, never from what somebody did to the node.
"""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from holdfast.keeper import processes
from holdfast.keeper import state as states
from holdfast.keeper.factory import NodeFactory
from holdfast.keeper.leases import Change, Leases
from holdfast.keeper.state import KeeperState, NodeRecord
from holdfast.kit.logs import LazyLogger
from holdfast.protocol import keeping
from holdfast.protocol.lease import ABSENT_AFTER_S

COMES_UP_WITHIN_S = 10.0
"""A node that was just started may take this long to renew for the first time."""

ENDS_WITHIN_S = 5.0
"""How long a host may take to end its node before it is killed."""

AGAIN_AFTER_S = 1.0
"""From a host that could not be started, or a state that could not be saved, to the next try."""

log = LazyLogger()


class Refusal(Exception):
    """A call that changed nothing; the message says why."""

    def __init__(self, why: str, *, permanent: bool = False) -> None:
        super().__init__(why)
        self.permanent = permanent


class Keeper:
    """All nodes of one local cluster."""

    def __init__(self, root: Path, state: KeeperState, factory: NodeFactory) -> None:
        self.root = root
        self.state = state
        self.leases = Leases()
        self.watchers: set[Callable[[keeping.NodeFact], None]] = set()
        self._factory = factory
        self._ticked_s = time.monotonic()
        self._orphans_possible = False
        self._unstarted: dict[str, OSError] = {}  # by node: its host is to be started again
        self._unsaved = False
        self._again_at_s = 0.0

    # ------------------------------------------------------------ its life

    def start(self) -> None:
        """Adopt the hosts that still live, start the others. Raises `OSError` where none lives."""
        self._factory.prepare(self.state)
        self._remove_unknown_hosts()
        for node in self.state.nodes.values():
            self.leases.expect(node.name, within_s=ABSENT_AFTER_S)
            if self._ended(node):
                self._forget_host(node)
            elif node.host_pid:
                log.info("adopted a node", node=node.name, host=node.host_pid)
        self._boot_missing()
        if self._unstarted and not any(node.host_pid for node in self.state.nodes.values()):
            raise next(iter(self._unstarted.values()))

    def tick(self) -> None:
        """Ten times a second: reap, notice what ended, let leases age.

        A full disk ends no node: what could not be done then is tried again.
        """
        self._orphans_possible |= bool(processes.reap())
        if self._orphans_possible:
            self._orphans_possible = self._kill_orphans() > 0
        ended = [node for node in self.state.nodes.values() if self._ended(node)]
        for node in ended:
            log.warning("the host of a node ended", node=node.name, host=node.host_pid)
            self.leases.host_ended(node.name)
            self._forget_host(node)
        if ended:
            self._boot_missing()
        if self._factory.tend(self.state):
            self._save_or_later()
        now_s = time.monotonic()
        if now_s >= self._again_at_s:
            self._try_again()
        for change in self.leases.passed(now_s - self._ticked_s):
            self._tell(change)
        self._ticked_s = now_s

    def close(self) -> None:
        """End every node, and remove what they shared."""
        nodes = [node for node in self.state.nodes.values() if self._alive(node)]
        for node in nodes:
            processes.kill(node.host_pid, signal.SIGTERM)
        processes.wait_gone([node.host_pid for node in nodes], ENDS_WITHIN_S)
        for node in self.state.nodes.values():
            if self._alive(node):
                processes.kill(node.host_pid)
            self._forget_host(node)
            node.lost = False
        self._factory.close(self.state)
        processes.reap()
        self._save_or_later()

    def save(self) -> None:
        """Raises `OSError` with the saved state as it was."""
        states.save(self.root, self.state)
        self._unsaved = False

    # ------------------------------------------------------------ what is asked of it

    def facts(self) -> list[keeping.NodeFact]:
        """Every node of which anything is known yet."""
        known = [name for name in self.state.nodes if self.leases.present(name) is not None]
        return [self._fact(name) for name in known]

    def answer(self, request: keeping.Request) -> None:
        """Do what a client asks, or raise `Refusal` with nothing changed."""
        match request:
            case keeping.Allocate(job=job, node=name, trial=trial):
                self._allocate(job, self._node(name), trial=trial)
            case keeping.Release(node=name):
                self._node(name).job = ""
            case keeping.Distrust(node=name, incident=incident, reason=reason):
                node = self._node(name)
                node.distrusted, node.incident = reason or "no reason given", incident
                self._announce(self._fact(name))
            case keeping.Trust(node=name):
                node = self._node(name)
                node.distrusted, node.incident = "", 0
                if node.lost:  # who wants it used again has had it repaired
                    node.lost = False
                    self._boot_missing()
                self._announce(self._fact(name))
            case keeping.WatchFacts():
                raise Refusal("watching is a stream, not a call", permanent=True)
        self.save()

    def renewed(self, node: str, incarnation: str) -> None:
        """A node's lease was renewed over its link."""
        change = self.leases.renewed(node, incarnation)
        if change:
            self._tell(change)

    # ------------------------------------------------------------ helpers

    def _node(self, name: str) -> NodeRecord:
        node = self.state.nodes.get(name)
        if node is None:
            have = ", ".join(self.state.nodes)
            raise Refusal(f"node: {name!r} is not one of {have}", permanent=True)
        return node

    def _allocate(self, job: str, node: NodeRecord, *, trial: bool) -> None:
        if node.distrusted and not trial:
            raise Refusal(f"node: {node.name} is not to be used: {node.distrusted}", permanent=True)
        if node.job not in ("", job):
            raise Refusal(f"node: {node.name} is held by job {node.job}")
        if not self.leases.present(node.name):
            raise Refusal(f"node: {node.name} is absent")
        node.job = job

    def _boot_missing(self) -> None:
        """Start every node that has no host and is not lost for good."""
        nodes = [node for node in self.state.nodes.values() if not (node.host_pid or node.lost)]
        for node in nodes:
            if node.name not in self._unstarted:
                self.leases.expect(node.name, within_s=COMES_UP_WITHIN_S)
        self._unstarted.clear()
        for node, started in zip(nodes, self._factory.start(self.state, nodes), strict=True):
            if isinstance(started, OSError):
                self._not_started(node, started)
            else:
                node.host_pid, node.host_start_ticks = started, processes.start_ticks(started) or 0
        self._save_or_later()

    def _not_started(self, node: NodeRecord, error: OSError) -> None:
        log.warning("a node could not be started", node=node.name, why=str(error))
        self._unstarted[node.name] = error
        self._again_at_s = time.monotonic() + AGAIN_AFTER_S

    def _save_or_later(self) -> None:
        """Save what happened by itself. A next keeper sees from processes what is not saved yet."""
        try:
            self.save()
        except OSError as error:
            log.warning("the state could not be saved", why=str(error))
            self._unsaved = True
            self._again_at_s = time.monotonic() + AGAIN_AFTER_S

    def _try_again(self) -> None:
        if self._unstarted:
            self._boot_missing()
        elif self._unsaved:
            self._save_or_later()

    def _alive(self, node: NodeRecord) -> bool:
        return node.host_pid > 0 and processes.start_ticks(node.host_pid) == node.host_start_ticks

    def _ended(self, node: NodeRecord) -> bool:
        return node.host_pid > 0 and not self._alive(node)

    def _forget_host(self, node: NodeRecord) -> None:
        """Its host is dead: so must be all of the node."""
        self._factory.remove(self.state, node)
        node.host_pid = node.host_start_ticks = 0
        node.lost = not self._factory.reboots
        self._save_or_later()

    def _remove_unknown_hosts(self) -> None:
        """A keeper that was killed before it could save left hosts that no record tells of."""
        found = [processes.environment_of(pid) for pid in processes.marked(self.state.run_id)]
        names = {environment.get("HOLDFAST_NODE") for environment in found}
        for node in self.state.nodes.values():
            if node.host_pid == 0 and node.name in names:
                log.warning("a node had a host that was not written down", node=node.name)
                self._factory.remove(self.state, node)

    def _kill_orphans(self) -> int:
        """What a killed host left behind comes to us, its subreaper: nothing of it may go on."""
        ours = {node.host_pid for node in self.state.nodes.values()} | {self.state.switch_pid}
        orphans = [pid for pid in processes.children_of(os.getpid()) if pid not in ours]
        return sum(processes.kill(pid) for pid in orphans)

    def _fact(self, name: str) -> keeping.NodeFact:
        node = self.state.nodes[name]
        return keeping.NodeFact(
            node=name,
            rack=node.rack,
            present=bool(self.leases.present(name)),
            distrusted=bool(node.distrusted),
            why=node.distrusted,
        )

    def _tell(self, change: Change) -> None:
        log.info(
            "a node came" if change.present else "a node went", node=change.node, why=change.why
        )
        fact = self._fact(change.node)
        self._announce(
            keeping.NodeFact(
                node=fact.node,
                rack=fact.rack,
                present=change.present,
                distrusted=fact.distrusted,
                why=fact.why or change.why,
            )
        )

    def _announce(self, fact: keeping.NodeFact) -> None:
        for watcher in tuple(self.watchers):
            watcher(fact)
