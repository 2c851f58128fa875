"""Rules between fields of a `TrainingJob`, in CEL, with the sentences of `protocol.jobrules`.

Used by `crd`. The API server refuses by them what `protocol.jobcheck` refuses elsewhere; a test
gives both the same specs. Each is cheap: all that they look at has a bound.
"""

import json
from typing import Any

from holdfast.protocol import communication, jobrules, jobspec, jobupdate, podspec, storeurl

Rule = dict[str, Any]


def _rule(holds: str, why: str, fix: str) -> Rule:
    return {"rule": holds, "message": f"{why}  {fix}"}


def _format(text: str, *values: str) -> str:
    """CEL that fills `text`. The one way to make a sentence whose estimated cost is bounded."""
    return f"'{text}'.format([{', '.join(values)}])"


def _once(name: str) -> str:
    return f"self.exists_one(axis, axis == '{name}')"


_NODES, _PER_NODE = "self.nodes", "self.ranksPerNode"
_DP, _PP, _TP = (f"self.topology.{axis}" for axis in ("dp", "pp", "tp"))
_WORLD, _INNER = f"({_NODES} * {_PER_NODE})", f"({_TP} * {_PP})"
_RANKS = f"({_INNER} * {_DP})"
_WANT_WHOLE = _format("tp %d x pp %d x dp %d = %d ranks", _TP, _PP, _DP, _RANKS)
_WANT_REPLICA = _format(
    "tp %d x pp %d = %d ranks a replica, and that does not divide the world", _TP, _PP, _INNER
)
_OTHER_DP = _format("dp: %d", f"{_WORLD} / {_INNER}")


def _other_sizes(ranks: str) -> str:
    """As `jobrules._other_sizes`."""
    nodes = _format("nodes: %d", f"{ranks} / {_PER_NODE}")
    both = _format("%s, or %s", _OTHER_DP, nodes)
    neither = "'sizes whose product is the number of ranks'"
    fits_dp, fits_nodes = f"{_WORLD} % {_INNER} == 0", f"{ranks} % {_PER_NODE} == 0"
    with_dp = f"({fits_nodes} ? {both} : {_OTHER_DP})"
    return f"({fits_dp} ? {with_dp} : ({fits_nodes} ? {nodes} : {neither}))"


_OUT_OF_BOUNDS = " || ".join(f"{size} < 1" for size in (_NODES, _PER_NODE, _PP, _TP))
"""What is refused already, and nothing follows from it."""

_SIZES = {
    "rule": f"{_OUT_OF_BOUNDS} || ({_DP} == 0 ? {_WORLD} % {_INNER} == 0 : {_RANKS} == {_WORLD})",
    "message": "tp x pp x dp is not nodes x ranksPerNode.",
    "messageExpression": _format(
        "%s, but nodes %d x ranksPerNode %d = %d.  Set %s.",
        f"({_DP} == 0 ? {_WANT_REPLICA} : {_WANT_WHOLE})",
        *(_NODES, _PER_NODE, _WORLD),
        f"({_DP} == 0 ? {_other_sizes(_INNER)} : {_other_sizes(_RANKS)})",
    ),
    "fieldPath": ".topology",
}

_OWN = f"name in {json.dumps(sorted(jobrules.RESERVED))} || name.startsWith('HOLDFAST_')"
_ENVIRONMENT = {
    "rule": f"!self.exists(name, {_OWN})",
    "message": "RANK and its like are set by Holdfast for each rank.  Remove them from env.",
    "messageExpression": _format(
        "%s: set by Holdfast for each rank.  Remove from env.", f"self.filter(name, {_OWN})"
    ),
}
_ORDER = _rule(
    " && ".join(_once(axis) for axis in ("dp", "pp", "tp")),
    "the order does not have each axis once.",
    jobspec.ORDER_FIX,
)

_STUCK = {
    "rule": "!has(self.stuckMaxS) || self.stuckMaxS <= self.pauseMaxS",
    "message": "stuckMaxS is longer than pauseMaxS.",
    "messageExpression": _format(
        f"%s is longer than pauseMaxS %s: {jobrules.STUCK}.  Set at most %s, or raise pauseMaxS.",
        *("self.stuckMaxS", "self.pauseMaxS", "self.pauseMaxS"),
    ),
    "fieldPath": ".stuckMaxS",
}

_SOURCE_COUNT = " + ".join(f"(has(self.{source}) ? 1 : 0)" for source in podspec.SOURCES)
_ONE_SOURCE = _rule(f"{_SOURCE_COUNT} == 1", podspec.ONE_SOURCE, podspec.ONE_SOURCE_FIX)
_OWN_VOLUME = _rule(
    f"!(self.name in {json.dumps(podspec.OWN_VOLUMES)})",
    podspec.OWN_VOLUME,
    podspec.OWN_VOLUME_FIX,
)

_OPTIONAL = ("deadlineS",)
_MUTABLE = (*jobupdate.MAY_CHANGE, "suspend")


def _unchanged(name: str) -> Rule:
    return _rule("self == oldSelf", f"{name} cannot change once the job is made.", REMAKE)


_ONLY = f"{', '.join(_MUTABLE[:-1])} and {_MUTABLE[-1]}"
REMAKE = f"Delete the job and create it anew; only {_ONLY} can change."
SPEC_IMMUTABLE = {
    name: _unchanged(name)
    for name in (info.alias or field for field, info in jobspec.Spec.model_fields.items())
    if name not in (*_OPTIONAL, *_MUTABLE)
}
"""By field. A field with a default, or required, is always there: nothing gets around its rule."""
_OPTIONAL_UNCHANGED = [
    _rule(
        f"has(self.{name}) == has(oldSelf.{name})"
        f" && (!has(self.{name}) || self.{name} == oldSelf.{name})",
        f"{name} cannot change once the job is made.",
        REMAKE,
    )
    | {"fieldPath": f".{name}"}
    for name in _OPTIONAL
]
"""On the spec: a rule of the field itself is not asked where the field goes or comes."""

_EXISTS = _rule(
    "self.operator != 'Exists' || self.value == ''",
    podspec.EXISTS_VALUE,
    podspec.EXISTS_VALUE_FIX,
)
_EVERY_KEY = _rule(
    "self.operator == 'Exists' || self.key != ''", podspec.EVERY_KEY, podspec.EVERY_KEY_FIX
)
_VOLUME_NAMES = _rule(
    "self.all(one, self.exists_one(other, other.name == one.name))",
    podspec.SAME_NAME,
    podspec.SAME_NAME_FIX,
)

_VARIABLE_NAMES = _rule(
    "self.all(one, self.exists_one(other, other.name == one.name))",
    podspec.SAME_VARIABLE,
    podspec.SAME_VARIABLE_FIX,
)
_OWN_VARIABLE = _rule(
    f"!(self in {json.dumps(sorted(jobrules.RESERVED))} || self.startsWith('HOLDFAST_'))",
    podspec.OWN_VARIABLE,
    podspec.OWN_VARIABLE_FIX,
)

QUANTITY = _rule(
    f"type(self) == int ? self >= 0 : self.matches(r'{podspec.QUANTITY}')",
    podspec.NO_QUANTITY,
    podspec.QUANTITY_FIX,
)
"""Of each quantity, wherever it is: the API server would only name the pattern."""

_AMOUNTS = _rule(
    f"self.all(name, name in {json.dumps(podspec.OWN_RESOURCES)} || name.contains('/')"
    f" || name.startsWith('{podspec.HUGE_PAGES}'))",
    podspec.NO_RESOURCE,
    podspec.RESOURCE_FIX,
)
_STORE = _rule("self == '' || self.contains('://')", jobspec.NO_STORE, storeurl.FIX)
"""What is behind the scheme the driver judges."""
_REDIS = _rule(
    r"self == '' || self.matches('^(rediss?|unix)://')",
    communication.NO_REDIS,
    communication.REDIS_FIX,
)
_INTERFACES = _rule(
    r"self.all(name, name.matches('^[^ /:,^=]{1,15}$'))",
    communication.NO_INTERFACE,
    communication.INTERFACE_FIX,
)

RULES: dict[str, list[Rule]] = {
    "spec": [_SIZES, *_OPTIONAL_UNCHANGED],
    "spec.checkpoint.beginFrom": [_unchanged("beginFrom")],
    "spec.env": [_ENVIRONMENT],
    "spec.topology.order": [_ORDER],
    "spec.timeouts": [_STUCK],
    "spec.checkpoint.storeUrl": [_STORE, _unchanged("storeUrl")],
    "spec.communication.rendezvous": [_REDIS],
    "spec.communication.interfaces": [_INTERFACES],
    "spec.pod.resources.requests": [_AMOUNTS],
    "spec.pod.resources.limits": [_AMOUNTS],
    "spec.pod.rdmaDevices": [_AMOUNTS],
    "spec.pod.tolerations[]": [_EXISTS, _EVERY_KEY],
    "spec.pod.secretEnv": [_VARIABLE_NAMES],
    "spec.pod.secretEnv[].name": [_OWN_VARIABLE],
    "spec.pod.volumes": [_VOLUME_NAMES],
    "spec.pod.volumes[]": [_ONE_SOURCE, _OWN_VOLUME],
}
ROOT_RULES = [
    {
        "rule": f"self.metadata.name.matches('{jobspec.NAME_PATTERN}')"
        " && size(self.metadata.name) <= 63",
        "message": "the name is not valid for a job.",
        "messageExpression": _format(
            "name %s is not valid for a job.  Begin with a letter; at most 63 of a-z, 0-9 and -.",
            "self.metadata.name",
        ),
        "fieldPath": ".metadata.name",
    }
]
