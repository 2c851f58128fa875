"""The custom resource definition of `TrainingJob`, made from the one job spec. Pure.

`python -m holdfast.driver.adapters.kubernetes.crd` prints it; a test holds
deploy/kubernetes/base/crd.yaml to it. `crd_rules` has the rules between fields, `crd_status` the
status.
"""

import sys
from typing import Any

import yaml

from holdfast.driver.adapters.kubernetes.crd_rules import (
    QUANTITY,
    ROOT_RULES,
    RULES,
    SPEC_IMMUTABLE,
)
from holdfast.driver.adapters.kubernetes.crd_status import COLUMNS, STATUS
from holdfast.driver.adapters.kubernetes.names import KIND
from holdfast.kubeapi.paths import GROUP, VERSION
from holdfast.protocol.jobspec import schema

Schema = dict[str, Any]

HEADER = "# Made by `make crd` from protocol/jobspec.py. Do not edit.\n"
METADATA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 253}},  # bounds the rule's cost
}
KEPT = (
    "description type enum default minimum maximum minLength maxLength pattern minItems maxItems "
    "maxProperties"
).split()
"""Words of JSON schema that a structural schema takes as they are."""


def definition() -> Schema:
    """The whole CustomResourceDefinition."""
    names: Schema = {"kind": KIND, "listKind": f"{KIND}List", "plural": "trainingjobs"}
    names |= {"singular": "trainingjob", "shortNames": ["tj"], "categories": ["all", "holdfast"]}
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": _root()},
        "subresources": {"status": {}},
        "additionalPrinterColumns": COLUMNS,
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"trainingjobs.{GROUP}",
            "labels": {"app.kubernetes.io/name": "holdfast"},
        },
        "spec": {"group": GROUP, "names": names, "scope": "Namespaced", "versions": [version]},
    }


def _root() -> Schema:
    whole = schema()
    kinds = whole["$defs"]
    spec = structural(whole["properties"]["spec"], kinds, "spec")
    spec["required"] = ["command", "pod"]
    for name, field in spec["properties"].items():
        if name in SPEC_IMMUTABLE:
            field.setdefault("x-kubernetes-validations", []).append(SPEC_IMMUTABLE[name])
    return {
        "description": whole["description"],
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string", "description": f"{GROUP}/{VERSION}"},
            "kind": {"type": "string", "description": KIND},
            "metadata": METADATA,
            "spec": spec,
            "status": STATUS,
        },
        "x-kubernetes-validations": ROOT_RULES,
    }


def structural(given: Schema, kinds: dict[str, Schema], place: str) -> Schema:
    """One schema as OpenAPI v3 without references; `place` is its path, for the rules."""
    given = _resolved(given, kinds)
    made = {word: _plain(given[word]) for word in KEPT if given.get(word) is not None}
    if "exclusiveMinimum" in given:
        made |= {"minimum": _plain(given["exclusiveMinimum"]), "exclusiveMinimum": True}
    if "anyOf" in given:  # a quantity: the only field that may be a number or text
        del made["pattern"]
        made |= {"x-kubernetes-int-or-string": True, "maxLength": 32}
        made["x-kubernetes-validations"] = [dict(QUANTITY)]
    if "items" in given:
        made["items"] = structural(given["items"], kinds, f"{place}[]")
    if "properties" in given:
        made["properties"] = {
            name: structural(field, kinds, f"{place}.{name}")
            for name, field in given["properties"].items()
        }
        made |= {"required": given["required"]} if "required" in given else {}
    elif given.get("type") == "object":
        made["additionalProperties"] = structural(_values(given), kinds, f"{place}{{}}")
        made.setdefault("default", {})  # always there, so that rules of change are always asked
    if place in RULES:
        made["x-kubernetes-validations"] = [dict(rule) for rule in RULES[place]]
    return made


def _resolved(given: Schema, kinds: dict[str, Schema]) -> Schema:
    """Without `$ref`, without "or null": an object leaves out what it does not have."""
    choices = [each for each in given.get("anyOf", ()) if each != {"type": "null"}]
    if len(choices) == 1:
        given = {**choices[0], **{word: given[word] for word in given if word != "anyOf"}}
    if "$ref" in given:
        kind = kinds[given["$ref"].rpartition("/")[2]]
        given = {**kind, **{word: given[word] for word in given if word != "$ref"}}
    return given


def _plain(value: Any) -> Any:
    """86400.0 as 86400, a sentence on one line, and an object without what it does not have."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items() if each is not None}
    return " ".join(value.split()) if isinstance(value, str) else value


def _values(given: Schema) -> Schema:
    """The schema of a mapping's values, whatever its keys."""
    patterns = given.get("patternProperties")
    values: Schema = next(iter(patterns.values())) if patterns else given["additionalProperties"]
    return values


def text() -> str:
    """The definition as YAML, as it is in the repository."""
    return HEADER + yaml.safe_dump(definition(), sort_keys=False, width=100, allow_unicode=True)


if __name__ == "__main__":
    sys.stdout.write(text())
