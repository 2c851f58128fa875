"""A node is at rest once its executor has done the last order, and nothing more is wanted."""

import pytest
from msgspec.structs import replace

from holdfast.driver.adapters.rest.views import node_view
from holdfast.driver.core.state.model import State
from holdfast.driver.core.state.node import Connected, Fencing, Held, Here, Never, Node
from holdfast.protocol.messages import Observed

NODE = Node(
    name="node-1",
    presence=Here(),
    link=Connected(incarnation="a", address="x"),
    told=Fencing(generation=7),
)
SEEN = Observed(node="node-1", incarnation="x", sequence=1, generation=7, epoch=1, quiet=True)


@pytest.mark.parametrize(
    ("node", "seen", "at_rest"),
    [
        (NODE, SEEN, True),
        (NODE, None, False),
        (NODE, replace(SEEN, quiet=False), False),
        (NODE, replace(SEEN, generation=6), False),
        (replace(NODE, link=Never()), SEEN, False),
        (replace(NODE, holding=Held(job="speech")), SEEN, False),
        (replace(NODE, told=Fencing()), None, True),
    ],
    ids=["done", "unheard", "busy", "of an order before", "away", "held", "never told anything"],
)
def test_a_node_is_at_rest_once_its_executor_has_done_the_last_order(
    node: Node, seen: Observed | None, at_rest: bool
) -> None:
    assert node_view(State(), node, seen, now=9.0).at_rest is at_rest
