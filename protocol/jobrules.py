"""Rules that hold between fields of a job spec, as pure functions of plain values.

Called by `protocol.jobspec`'s validators. Each gives one `Mistake`, or None. Must not know
pydantic.
"""

from collections.abc import Iterable

from holdfast.protocol.mistakes import Mistake, shown

RESERVED = frozenset(
    "RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE ROLE_RANK "
    "ROLE_WORLD_SIZE ROLE_NAME MASTER_ADDR MASTER_PORT".split()
)
"""Environment that a job may not set, for it would contradict the rank table."""


MOST_NAMED = 20
"""Names in one sentence."""


def sizes(*, nodes: int, ranks_per_node: int, dp: int, pp: int, tp: int) -> Mistake | None:
    """The parallel sizes multiply to the world; `dp` 0 is whatever is left of it."""
    world, inner = nodes * ranks_per_node, tp * pp
    if world == inner * dp or (dp == 0 and world % inner == 0):
        return None
    want = f"tp {tp} x pp {pp} x dp {dp} = {inner * dp} ranks"
    if dp == 0:
        want = f"tp {tp} x pp {pp} = {inner} ranks a replica, and that does not divide the world"
    return Mistake(
        field="topology",
        value=shown({"dp": dp, "pp": pp, "tp": tp}),
        why=f"{want}, but nodes {nodes} x ranksPerNode {ranks_per_node} = {world}.",
        fix=f"Set {_other_sizes(world, inner, inner * (dp or 1), ranks_per_node)}.",
    )


def _other_sizes(world: int, inner: int, ranks: int, ranks_per_node: int) -> str:
    fixes = [f"dp: {world // inner}"] if world % inner == 0 else []
    if ranks % ranks_per_node == 0:
        fixes.append(f"nodes: {ranks // ranks_per_node}")
    return ", or ".join(fixes) or "sizes whose product is the number of ranks"


STUCK = "a rank that works would have less time than one of which nothing moves"


def stuck(*, stuck_max_s: float | None, pause_max_s: float) -> Mistake | None:
    """A rank that works has at least as long as one of which nothing moves."""
    if stuck_max_s is None or stuck_max_s <= pause_max_s:
        return None
    return Mistake(
        field="timeouts.stuckMaxS",
        value=f"{stuck_max_s:g}",
        why=f"{stuck_max_s:g} is longer than pauseMaxS {pause_max_s:g}: {STUCK}.",
        fix=f"Set at most {pause_max_s:g}, or raise pauseMaxS.",
    )


def kept(*, keep_every_steps: int, store_interval_steps: int) -> Mistake | None:
    """What is to be kept for ever is written at all."""
    if not keep_every_steps:
        return None
    every = store_interval_steps
    if every and keep_every_steps % every == 0:
        return None
    why = (
        f"storeIntervalSteps is {every}: {'no' if not every else 'not each'} such step is written."
    )
    return Mistake(
        field="checkpoint.keepEverySteps",
        value=str(keep_every_steps),
        why=why,
        fix=f"Set a multiple of {every}, or 0." if every else "Set storeIntervalSteps, or 0 here.",
    )


def is_own(name: str) -> bool:
    """Whether Holdfast sets the variable of that name itself."""
    return name in RESERVED or name.startswith("HOLDFAST_")


def own_environment(names: Iterable[str]) -> Mistake | None:
    """A job does not set what Holdfast sets for each rank."""
    ours = sorted(filter(is_own, names))
    if not ours:
        return None
    listed = ", ".join(ours[:MOST_NAMED])
    if len(ours) > MOST_NAMED:
        listed += f" and {len(ours) - MOST_NAMED:,} more"
    return Mistake(
        field="env",
        value=listed,
        why=f"{listed} {'is' if len(ours) == 1 else 'are'} set by Holdfast for each rank.",
        fix=f"Remove {'it' if len(ours) == 1 else 'them'} from env.",
    )
