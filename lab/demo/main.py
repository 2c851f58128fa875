"""The demo from start to end: cluster up, train, hurt, recover, the same left alone, compare.

Called by the command line, which reads the options.
"""

import contextlib
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import msgspec
from rich.console import Console

from holdfast.driver.core.state.model import FINISHED
from holdfast.lab import losses
from holdfast.lab.chaos.injectors import Done
from holdfast.lab.chaos.scenario import WORKLOAD, Scenario
from holdfast.lab.chaos.score import answering, detected_s
from holdfast.lab.chaos.target import NotThere
from holdfast.lab.cluster import Lab, Refused, TooLate
from holdfast.lab.demo.job import NODES, RANKS_PER_NODE, STANDBYS, training_job
from holdfast.lab.demo.scene import Looker, Scene, Struck
from holdfast.lab.demo.summary import Facts, Summary, summarise, too_late
from holdfast.lab.demo.view import LiveView, PlainView, View, result
from holdfast.lab.emulator.inside import NotPossible
from holdfast.lab.logs import logs_told
from holdfast.protocol import exitcodes

LOOK_S = 0.05
SHOW_S = 0.2
READY_S = 120.0
JOB_S = 300.0
ENDS_WITHIN_S = 30.0
"""A job whose ranks have ended."""
HURT, ALONE = ("demo", "demo-2", "demo-3"), "left-alone"
FAILURES = (TooLate, Refused, NotThere, NotPossible)
"""Why the demo could not be played to its end; the message says it."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """One run of the demo. `folder` None: a new one, removed when all is well."""

    fault: Scenario
    steps: int
    keep: bool
    as_json: bool
    folder: Path | None


class Demo:
    """One run of the demo on one laboratory."""

    def __init__(self, lab: Lab, options: Options, view: View) -> None:
        self._lab = lab
        self._options = options
        self._view = view
        self._began_s = time.monotonic()
        self._shown_s = 0.0
        self._act = ""
        self._scene = Scene()
        self._restored: frozenset[str] = frozenset()
        """Evicted by the driver, and given back by us."""
        self.hurt = HURT[0]
        """The job that the fault struck."""

    def play(self) -> Callable[[int], Summary]:
        """All acts; what makes the summary once the leftovers are known."""
        self._set(f"starting {NODES} nodes and {STANDBYS} standby")
        self._lab.ready(within_s=READY_S)
        fault = self._options.fault
        done, steps = self._hurt_in_time()
        hurt = self.hurt
        job, incidents = self._lab.job(hurt), self._lab.incidents(hurt)
        story = self._lab.story(hurt)["lines"]
        answers = answering(done, incidents, story)
        delayed_s = detected_s(fault.expected, done, answers, story)
        self._bring_back(incidents)
        self._train_alone(steps)
        run = self._lab.run

        def summary(leftovers: int) -> Summary:
            return summarise(
                Facts(
                    fault=fault.name,
                    nodes=NODES,
                    ranks=NODES * RANKS_PER_NODE,
                    kind=self._lab.kind(),
                    done=done,
                    expected=fault.expected,
                    delayed_s=delayed_s,
                    incidents=answers,
                    job=job,
                    losses=losses.read(run, hurt),
                    reference=losses.read(run, ALONE),
                    leftovers=leftovers,
                )
            )

        return summary

    def _hurt_in_time(self) -> tuple[Done, int]:
        """What was done, and of how many steps the job was. Where a machine is so busy that the
        last step was over before the fault: again, each time with four times the steps. Raises
        `TooLate`.
        """
        steps = self._options.steps * self._options.fault.longer
        for self.hurt in HURT:
            done = self._train_and_hurt(steps)
            incidents = self._lab.incidents(self.hurt)
            if done and not too_late(incidents, steps):
                return done, steps
            self._bring_back(incidents)
            steps *= 4
        raise TooLate(f"the job was over before the fault, {len(HURT)} times. Give more --steps.")

    def _train_and_hurt(self, steps: int) -> Done | None:
        """None where nothing trained any more when the fault was to be done."""
        fault, act = self._options.fault, "training"
        if self.hurt != HURT[0]:
            act = f"its last step was over before the fault: again, with {steps} steps"
        looker = self._submit(self.hurt, act, steps, standbys=STANDBYS, script=fault.script)
        self._until(looker, lambda scene: scene.step >= self._options.steps // 3)
        try:
            done = fault.do(self._lab, self.hurt, Random(HURT[0]))
        except NotThere:
            if not self._ends(looker):
                raise
            return None
        self._scene = looker.strike(done, fault.expected)
        self._set(f"{done.said}, from outside")
        self._until(looker, lambda scene: scene.phase in FINISHED)
        return done

    def _ends(self, looker: Looker) -> bool:
        """Whether the job does: its ranks may be gone, and a busy driver not know of it yet."""
        try:
            self._until(looker, lambda scene: scene.phase in FINISHED, within_s=ENDS_WITHIN_S)
        except TooLate:
            return False
        return True

    def _bring_back(self, incidents: list[dict[str, Any]]) -> None:
        """Evicted nodes are restored where they live, so that the cluster is the same again."""
        for node in {name for incident in incidents for name in incident["evicted"]}:
            with contextlib.suppress(Refused):
                reason = {"reason": "the demo goes on with the same cluster"}
                self._lab.ask("POST", f"/nodes/{node}/restore", json=reason)
                self._restored |= {node}

    def _train_alone(self, steps: int) -> None:
        act, struck = "the same job, left alone", self._scene.struck
        looker = self._submit(ALONE, act, steps, standbys=0, script=WORKLOAD, struck=struck)
        self._until(looker, lambda scene: scene.phase in FINISHED)

    def _submit(
        self,
        name: str,
        act: str,
        steps: int,
        *,
        standbys: int,
        script: str,
        struck: Struck | None = None,
    ) -> Looker:
        self._set(act)
        folder = self._lab.run.root
        self._lab.submit(
            training_job(name, steps=steps, standbys=standbys, folder=folder, script=script)
        )
        return Looker(self._lab, name, steps, struck, self._restored)

    def _until(
        self, looker: Looker, holds: Callable[[Scene], bool], within_s: float = JOB_S
    ) -> None:
        deadline_s = time.monotonic() + within_s
        while not holds(self._look(looker)):
            if time.monotonic() > deadline_s:
                raise TooLate(
                    f"{self._act}: not done in {within_s:g} s. Logs: {self._lab.run.root}"
                )
            time.sleep(LOOK_S)

    def _look(self, looker: Looker) -> Scene:
        now_s = time.monotonic()
        self._scene = looker.look(act=self._act, elapsed_s=now_s - self._began_s)
        if now_s - self._shown_s > SHOW_S or self._scene.phase in FINISHED:
            self._shown_s = now_s
            self._view.show(self._scene)
        return self._scene

    def _set(self, act: str) -> None:
        self._act = act
        elapsed_s = time.monotonic() - self._began_s
        self._view.show(msgspec.structs.replace(self._scene, act=act, elapsed_s=elapsed_s))

    def stay_if_kept(self) -> None:
        """With --keep: leave all of it running until Ctrl-C."""
        if not self._options.keep:
            return
        root = self._lab.run.root
        sys.stderr.write(
            f"still running; look at it with\n  holdfast --state {root} status\nCtrl-C ends it\n"
        )
        with contextlib.suppress(KeyboardInterrupt):
            while True:
                time.sleep(1.0)


def _on_namespaces(options: Options, folder: Path, view: View) -> Summary:
    lab = Lab(folder, nodes=NODES, standbys=STANDBYS, racks=2, gpus=options.fault.shape.gpus)
    with lab:
        demo = Demo(lab, options, view)
        with view:
            summarise_with = demo.play()
        demo.stay_if_kept()
    return summarise_with(lab.leftovers().count)


Played = Callable[[Options, Path, View], Summary]
"""Makes a cluster in the folder, plays the demo on it, and takes it down."""


def run(options: Options, played: Played = _on_namespaces) -> int:
    """Play the demo. 0 where the verdict is "passed", 130 after a Ctrl-C. Raises `FAILURES`."""
    folder = options.folder or Path(tempfile.mkdtemp(prefix="holdfast-demo-"))
    console = Console(stderr=options.as_json)
    live = console.is_terminal and not options.as_json
    view: View = LiveView(console) if live else PlainView(stderr=options.as_json)
    try:
        with logs_told(folder):
            summary = played(options, folder, view)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; cluster and job were taken down\n")
        return exitcodes.INTERRUPTED
    _tell(summary, options, console, folder)
    return exitcodes.OK if summary.verdict == "passed" else exitcodes.FAILED


def _tell(summary: Summary, options: Options, console: Console, folder: Path) -> None:
    keeps = summary.verdict != "passed" or options.folder is not None
    if options.as_json:
        sys.stdout.write(msgspec.json.encode(summary).decode() + "\n")
    else:
        console.print(result(summary))
    if keeps:
        console.print(f"   logs            {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
