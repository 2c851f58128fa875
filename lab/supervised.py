"""A thread that looks after the lab's children, so that whoever uses the lab need not.

Used by `lab.cluster`. A child that does not stay up is remembered and told to whoever waits.
"""

import threading
import time
from collections.abc import Sequence

from holdfast.kit.supervise import Child, DoesNotStayUp, Lifeline, end_all

LOOK_S = 0.05


class Supervised:
    """Children by name, from its making to `end`."""

    def __init__(self, children: Sequence[Child], lifeline: Lifeline) -> None:
        self.children = {child.name: child for child in children}
        self.failure: DoesNotStayUp | None = None
        self._lifeline = lifeline
        self._left: set[str] = set()
        self._looking = threading.Lock()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._look_after, name="lab-supervisor", daemon=True)
        try:
            self._thread.start()
        except BaseException:  # a Ctrl-C, while it begins: nobody has us yet, to end them
            self.end()
            raise

    def leave(self, name: str) -> None:
        """Look after it no more: once it has ended, it stays so."""
        with self._looking:
            self._left.add(name)

    def end(self) -> None:
        """Let all of them end, with everything that they started."""
        with self._looking:
            self._ending.set()
        if self._thread.is_alive():
            self._thread.join()
        end_all(list(self.children.values()), self._lifeline)

    def _look_after(self) -> None:
        while not self._ending.is_set():
            try:
                self._look()
            except DoesNotStayUp as failure:
                self.failure = failure
                return
            self._ending.wait(LOOK_S)

    def _look(self) -> None:
        with self._looking:
            for name in () if self._ending.is_set() else self.children.keys() - self._left:
                self.children[name].look_after(time.monotonic())
