"""Services, as pods know them: a name that every node resolves, and endpoints behind its port.

Run by `serve` in the place of cluster DNS and of what tells kube-proxy. All Services have the
address of the switch, so a port belongs to one of them, and is the target port too. What is written
here the gateway and the nodes read. Must not be needed by what already has a connection.
"""

import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from holdfast.kit.files import write_atomic
from holdfast.kubeapi.client import Client
from holdfast.kubeapi.reflector import Reflector
from holdfast.lab.emulator.nodes import HOSTS, SERVICES, SWITCH_ADDRESS

Object = dict[str, Any]
SLICES = "/apis/discovery.k8s.io/v1/endpointslices"
SERVICE = "kubernetes.io/service-name"


async def follow(client: Client, root: Path) -> None:
    """Keep what is below the keeper's folder `root` as the API server has it, for ever."""
    slices = Reflector(client, SLICES, labelSelector=SERVICE)
    async for _ in slices.changes():
        known = list(slices.store.values())
        write_atomic(root / SERVICES, json.dumps(endpoints(known)).encode())
        _name(root / HOSTS, names(known))


def endpoints(slices: Iterable[Object]) -> dict[str, list[str]]:
    """ADDRESS:PORT of whoever is ready, by port."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for one in slices:
        for port in one.get("ports") or ():
            found[str(port["port"])] += [
                f"{endpoint['addresses'][0]}:{port['port']}"
                for endpoint in one.get("endpoints") or ()
                if endpoint.get("conditions", {}).get("ready")
            ]
    return {port: sorted(found[port]) for port in sorted(found)}


def names(slices: Iterable[Object]) -> list[str]:
    """NAME.NAMESPACE.svc of each Service."""
    parts = ((one["metadata"]["labels"][SERVICE], one["metadata"]["namespace"]) for one in slices)
    return sorted({f"{name}.{namespace}.svc" for name, namespace in parts})


def _name(hosts: Path, services: Iterable[str]) -> None:
    """Add what is not there, in place: every node has this very file mounted."""
    there = hosts.read_text()
    new = [f"{SWITCH_ADDRESS} {name}" for name in services]
    with hosts.open("a") as file:
        file.writelines(f"{line}\n" for line in new if f"{line}\n" not in there)
