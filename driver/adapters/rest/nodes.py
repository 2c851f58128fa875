"""Routes about nodes: list, get, evict, restore, maintain."""

from fastapi import APIRouter, Depends, Request

from holdfast.driver.adapters.rest.asking import Done, IdempotencyKey, ask, key_of
from holdfast.driver.adapters.rest.body import read_notice, read_reason
from holdfast.driver.adapters.rest.guard import NO_PARAMETERS, PREFIX, Driver, person
from holdfast.driver.adapters.rest.problems import not_found
from holdfast.driver.adapters.rest.views import NodeList, NodeView, node_view
from holdfast.driver.core import events
from holdfast.driver.core.job.allocation import SAID_NODES
from holdfast.driver.core.state.node import Gone, Node
from holdfast.driver.people.control import Control

PERSON = "a person"

WORDS = {"gone": "it has gone away", "unknown": "its executor is not connected"}

STRANGER = "it is connected, but the cluster does not know it"

router = APIRouter(prefix=f"{PREFIX}/nodes", tags=["nodes"], dependencies=[Depends(person)])


@router.get("", dependencies=[NO_PARAMETERS])
async def list_nodes(control: Driver) -> NodeList:
    """Every node, by name."""
    nodes = nodes_of(control)
    return NodeList(items=[node_view_of(control, nodes[name]) for name in sorted(nodes)])


@router.get("/{node}", dependencies=[NO_PARAMETERS])
async def get_node(node: str, control: Driver) -> NodeView:
    """One node as it is now."""
    return node_view_of(control, node_of(control, node))


@router.post("/{node}/evict", status_code=202, dependencies=[NO_PARAMETERS])
async def evict(node: str, request: Request, control: Driver, key: IdempotencyKey = None) -> Done:
    """Use the node no more: its ranks move to another one, and it is quarantined."""
    reason = await read_reason(request)
    event = events.NodeEvictRequested(node=node, reason=reason, by=PERSON)
    return await ask(control, node, event, key=key_of(key, "evict", node, reason))


@router.post("/{node}/restore", status_code=202, dependencies=[NO_PARAMETERS])
async def restore(node: str, request: Request, control: Driver, key: IdempotencyKey = None) -> Done:
    """Use a node again that is quarantined, or kept free for maintenance."""
    reason = await read_reason(request)
    event = events.NodeRestoreRequested(node=node, reason=reason, by=PERSON)
    return await ask(control, node, event, key=key_of(key, "restore", node, reason))


@router.post("/{node}/maintain", status_code=202, dependencies=[NO_PARAMETERS])
async def maintain(
    node: str, request: Request, control: Driver, key: IdempotencyKey = None
) -> Done:
    """Have the node free, within `within_s` if there is a limit: what trains there saves first."""
    reason, within_s = await read_notice(request)
    event = events.NodeMaintainRequested(node=node, reason=reason, within_s=within_s, by=PERSON)
    return await ask(control, node, event, key=key_of(key, "maintain", node, reason, within_s))


def node_view_of(control: Control, node: Node) -> NodeView:
    """With the reason where the node is not there and the driver's own word for it is missing."""
    view = node_view(control.state, node, control.nodes.observed(node.name), now=control.now())
    view = view.model_copy(update={"unreadable": control.watch.unreadable(node.name)})
    if node.stranger:
        return view.model_copy(update={"reason": control.away() or STRANGER})
    if view.state == "unknown" and not control.executors_first:
        return view.model_copy(update={"state": "free"})
    absent = "" if node.present else control.absent().get(node.name, "")
    if not view.reason and (absent or view.state in WORDS):
        reason = absent or control.away() or WORDS[view.state]
        return view.model_copy(update={"reason": reason})
    return view


def node_of(control: Control, name: str) -> Node:
    """The node, or 404 with those that there are."""
    nodes = nodes_of(control)
    if name not in nodes:
        raise not_found("node", name, nodes)
    return nodes[name]


def nodes_of(control: Control) -> dict[str, Node]:
    """By name: those of the core, and those that the cluster has and that were never there."""
    nodes = dict(control.state.nodes)
    for name in control.absent():
        nodes.setdefault(name, Node(name=name, presence=Gone()))
    return nodes


def none_there(control: Control) -> str:
    """That the cluster has nodes and none of them is there, with why; "" where one is."""
    if any(node.present for node in control.state.nodes.values()):
        return ""
    absent = control.absent()
    said = ", ".join(f"{name}: {absent[name]}" for name in sorted(absent)[:SAID_NODES])
    return f"nodes that there are: {len(absent)}, and none is ready ({said})" if absent else ""
