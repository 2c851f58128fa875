"""The roles of deploy/kubernetes for an account of a test's own, whole or without one verb, and
what the audit log says that this account did with them.

Used by tests of what the driver needs its rights for. A right is said as `patch nodes/status`.
"""

import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import yaml
from deployed import DEPLOY

from holdfast.driver.adapters.kubernetes.rights import Asked, Rule
from holdfast.kubeapi import paths
from holdfast.kubeapi.client import Client

Object = dict[str, Any]

RBAC = "/apis/rbac.authorization.k8s.io/v1"
SHIPPED = ("rbac", "lease")

ASKED_BY_ANYBODY = re.compile(r"create selfsubject\w+")
"""What everybody may ask of themselves."""
REFUSED = re.compile(r'cannot (\w+) resource "([^"]+)"')


def granted() -> list[str]:
    """Every right of the shipped roles, in their order."""
    return [right for role in _called("any") for right in _rights_of(role)]


def reviews(name: str) -> list[Asked]:
    """Of each of these rights, as an account NAME in namespace NAME would ask for it."""
    return [
        asked
        for role in _called(name)
        for rule in role.get("rules", ())
        for resource in rule["resources"]
        for group in rule["apiGroups"]
        for asked in Rule(group, resource, rule["verbs"]).asked(
            namespace=name, name=rule.get("resourceNames", [""])[0]
        )
    ]


async def grant(admin: Client, name: str, *, lacking: str = "") -> None:
    """Have an account NAME in namespace NAME with the shipped rights but `lacking`; all of its
    objects, and the one Lease that it may have, are called NAME.
    """
    for part in _called(name):
        await admin.create(_at(part), _without(part, lacking))


async def revoke(admin: Client, name: str) -> None:
    """Delete what is in no namespace; the rest goes with its namespace."""
    for part in _called(name):
        if "namespace" not in part["metadata"]:
            await admin.delete(f"{_at(part)}/{part['metadata']['name']}")


def _called(name: str) -> list[Object]:
    text = "\n---\n".join((DEPLOY / "base" / f"{each}.yaml").read_text() for each in SHIPPED)
    text = text.replace("holdfast-driver", name).replace(
        "namespace: holdfast", f"namespace: {name}"
    )
    return [each for each in yaml.safe_load_all(text) if each]


def _rights_of(role: Object) -> list[str]:
    rules = role.get("rules", ())
    return [
        f"{verb} {what}" for each in rules for what in each["resources"] for verb in each["verbs"]
    ]


def _without(part: Object, lacking: str) -> Object:
    if "rules" not in part:
        return part
    rules = [
        {**rule, "resources": [resource], "verbs": verbs}
        for rule in part["rules"]
        for resource in rule["resources"]
        if (verbs := [verb for verb in rule["verbs"] if f"{verb} {resource}" != lacking])
    ]
    return {**part, "rules": rules}


def _at(part: Object) -> str:
    namespace = part["metadata"].get("namespace", "")
    if part["kind"] == "ServiceAccount":
        return paths.service_accounts(namespace)
    within = f"/namespaces/{namespace}" if namespace else ""
    return f"{RBAC}{within}/{part['kind'].lower()}s"


class Audit:
    """The audit log from now on, or the `whole`, by service account; each line is read once."""

    def __init__(self, log: Path, *, whole: bool = False) -> None:
        self._log = log
        self._at = 0 if whole else log.stat().st_size
        self._events: dict[str, list[Object]] = defaultdict(list)

    def used(self, account: str) -> set[str]:
        """What this account asked for, and was let do. `account`: its name and its namespace's, or
        NAMESPACE:NAME.
        """
        about = [each for each in self._of(account) if each["responseStatus"]["code"] != 403]
        rights = {right for each in about for right in _used(each)}
        return {right for right in rights if not ASKED_BY_ANYBODY.fullmatch(right)}

    def refused(self, account: str) -> set[str]:
        """What this account asked for, and was not let do."""
        return {right for each in self._of(account) for right in _refused(each)}

    def _of(self, account: str) -> list[Object]:
        self._read_on()
        whole = account if ":" in account else f"{account}:{account}"
        return self._events[f"system:serviceaccount:{whole}"]

    def _read_on(self) -> None:
        with self._log.open("rb") as log:
            log.seek(self._at)
            whole, newline, _ = log.read().rpartition(b"\n")
        self._at += len(whole) + len(newline)
        for line in whole.splitlines():
            if b'"system:serviceaccount:' in line:
                event = json.loads(line)
                self._events[event["user"]["username"]].append(event)


def _used(event: Object) -> list[str]:
    """A PUT that makes the object needs the right to create besides. What is served needs none."""
    about = event.get("objectRef")
    if about is None:
        return []
    resource = "/".join(filter(None, (about["resource"], about.get("subresource"))))
    made = event["verb"] == "update" and event["responseStatus"]["code"] == 201
    return [f"{verb} {resource}" for verb in (event["verb"], *(["create"] if made else []))]


def _refused(event: Object) -> list[str]:
    """As the API server says it in its answer: of a PUT that may not make the object, too."""
    if event["responseStatus"]["code"] != 403:
        return []
    return [f"{verb} {what}" for verb, what in REFUSED.findall(event["responseStatus"]["message"])]
