"""Whether the term is still ours: looked at again and again, for another driver may have taken one.

Owned by `driver.loop`, whose journal it is in. Must not write entries.
"""

import asyncio
import math

from holdfast.driver.ports import Journal, TakenOver, TemporaryError

TERM_CHECK_S = 1.0
"""Between two looks whether the term is still ours: a driver that was stopped and is woken after
another has taken over ends within so much, whether it has anything to write or not."""

ANSWER_S = CERTAIN_S = 3.0
"""Of the journal without an answer, until it is said that it is away; and how old the last look
that found the term ours may be when something outside is changed, which then waits. Another driver
takes a Lease no sooner than twice that after its holder was last heard."""


class Term:
    """The one that this driver took. `away`: why nobody knows now whether it is still ours."""

    def __init__(self, journal: Journal, number: int) -> None:
        self._journal = journal
        self.number = number
        self.away: str | None = None
        self._followed = 0  # the latest term that any executor has followed of another driver
        self._ours_s = float("-inf")  # when the last look began that found the term ours
        self._looked = asyncio.Event()

    def followed(self, term: int) -> None:
        """An executor has followed the driver of that term."""
        self._followed = max(self._followed, term)

    async def certain(self) -> None:
        """Return once the term was ours a moment ago; where it is another's now, never: this driver
        ends then.

        For who is about to change what is outside, on a decision that may be old: a process that is
        stopped and woken knows nothing of the time between.
        """
        while asyncio.get_running_loop().time() - self._ours_s > CERTAIN_S:
            await self._looked.wait()

    async def keep(self, *, step_down_s: float = math.inf) -> None:
        """Look at the term until cancelled.

        Raises `TakenOver` once it is another's, and once it may be: the journal has not answered
        for `step_down_s`.
        """
        now_s = asyncio.get_running_loop().time
        answered_s, began_s, look = now_s(), now_s(), self._look()
        try:
            while (left_s := answered_s + step_down_s - now_s()) > 0:
                self.away = await _unanswered(look, within_s=min(ANSWER_S, left_s))
                if self.away is None:
                    answered_s = now_s()
                    self._found_ours(began_s)
                if look.done():
                    await asyncio.sleep(TERM_CHECK_S)
                    began_s, look = now_s(), self._look()
        finally:
            look.cancel()  # where it still hangs, its answer comes too late, and is nobody's
        raise TakenOver(
            f"this driver has stopped, for another may lead since {step_down_s:.0f} s "
            f"({self.away or 'it was stopped meanwhile'})"
        )

    def _found_ours(self, at_s: float) -> None:
        self._ours_s = at_s
        self._looked.set()
        self._looked = asyncio.Event()

    def _look(self) -> asyncio.Task[None]:
        """A look under way. Its error, as of `Journal.check_term`, is for who awaits it."""
        return asyncio.ensure_future(asyncio.to_thread(self._check))

    def _check(self) -> None:
        self._journal.check_term()
        if self._followed >= self.number:
            self._journal.pass_over(self._followed)


async def _unanswered(look: asyncio.Task[None], *, within_s: float) -> str | None:
    """Why nobody knows whether the term is still ours; None once the journal has said that it is.

    Raises what the look raises, but for `TemporaryError`.
    """
    if not (await asyncio.wait({look}, timeout=within_s))[0]:
        return f"the journal has not answered for {ANSWER_S:.0f} s. Running jobs go on."
    try:
        look.result()
    except TemporaryError as error:
        return str(error)
    return None
