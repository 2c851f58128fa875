"""What `why` says of a node that a job has left, to who has never seen such a thing."""

from holdfast.driver.adapters.rest.against import mind_once_over
from holdfast.driver.adapters.rest.telling import why_node
from holdfast.driver.core.state.model import Phase
from holdfast.page.hypotheses import told

SAID = """
n1 is free
3 faults put down to it within 7 days: rank 2 on n1 died of SIGSEGV
tests found nothing, 0 seconds ago
job v1 accuses it: rank 2 on n1 died of SIGSEGV, 0 seconds ago, weighs 1 of 1 now
suspicion 1; it halves every 7 days. 1 of 3 accusers that put a node into quarantine
left by job, without proof: taken last by it for 7 days after that
incident 1: rank 2 on n1 died of SIGSEGV (back at step 25)
incident 2: rank 2 on n1 died of SIGSEGV (back at step 31)
incident 3: rank 2 on n1 died of SIGSEGV (not over)
the driver | closed |  | the driver hears its nodes well
passing fault | closed |  | 3 of 3 faults came on n1, of 4 nodes
restore point | closed |  | ranks started from none
a link | closed |  | no two nodes are known that cannot reach each other
> the node | move | 2 min | 3 of 3 faults came on n1, of 4 nodes
the version | closed |  | no earlier version of this job has run
unknown node | closed |  | the node is known: n1
the script | closed |  | no sign of it: nothing came at this place before
likely host: it comes on one node, more than by chance
"""
MIND = """
It may be used: that a job left it is no verdict. What a job accuses it of is taken back where the
same comes again at its place on another node. 3 accusers (people, and versions of jobs, of one job
at most 2) within 7 days, or a failed test, put it into quarantine; the last accusation is forgotten
after 28 days, or when a person says so: holdfast fact n1 "…" --clears
"""
ONCE_OVER = """
Another run begins with nothing against it: what is held against it is in this run's folder alone. A
driver that is started on that folder again goes on with it.
"""


class NoEntries:
    """A journal of which nothing is kept any more."""

    def entries(self, **_: object) -> list[object]:
        return []


def test_a_node_that_was_moved_says_what_happened_what_is_open_and_what_would_change_that(
    training,
) -> None:
    life = training(nodes=4, spare=1, standbys=1)
    for step in (12, 25, 31):
        life.progress(step)
        life.dies(2, signal=11, own_step=step)
        while life.phase is not Phase.RUNNING:
            life.answer()
            if life.job.exam is not None:
                life.tests_end()
    assert "n1" not in life.job.places
    node = life.state.nodes["n1"]
    said = why_node(NoEntries(), life.state, node, now=life.now)  # type: ignore[arg-type]
    rows = [told(row.model_dump()) for row in said.hypotheses]
    table = [" | ".join(("> " * row.chosen + row.may_be, *row[1:4])) for row in rows]
    assert [said.headline, *said.details, *table, said.origin] == SAID.strip().splitlines()
    assert said.mind == " ".join(MIND.split())
    assert mind_once_over(life.state, node, life.now) == " ".join(ONCE_OVER.split())
    assert mind_once_over(life.state, life.state.nodes["n0"], life.now) == ""
