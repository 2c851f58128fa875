"""All that a driver on Kubernetes is to do, by the words for each, and what each right is for.

Used by `driver_lives`, and by the tests that ask what came about.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import httpx
from unchecked_driver import UncheckedDriver
from waiting import DEADLINE_S
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidHandshake

from holdfast.driver.adapters.kubernetes import names
from holdfast.kubeapi import paths
from holdfast.kubeapi.client import Client
from holdfast.kubeapi.errors import NotFound

Object = dict[str, Any]
T = TypeVar("T")

LOOK_S = 0.1

LEADS = "it leads, and renews its Lease"
ENDS = "what is over, and was to live a second, is deleted"
BINDS = "both pods of a gang are on their nodes"
ADMITS = "what has the token of such a pod is admitted"
WRITES = "the status is written"
TELLS = "the story is told"
GIVES_BACK = "the pods of a suspended job are deleted"
NAMES = "a pod of nobody that has the name of one of ours is named"
MARKS = "a bad node has all its marks"
SEES = "nothing was ever out of its sight"

NEEDED_FOR = {
    "list trainingjobs": BINDS,
    "watch trainingjobs": SEES,
    "delete trainingjobs": ENDS,
    "patch trainingjobs/status": WRITES,
    "get pods": NAMES,
    "list pods": BINDS,
    "watch pods": SEES,
    "create pods": BINDS,
    "delete pods": GIVES_BACK,
    "patch pods": BINDS,
    "create events": TELLS,
    "list priorityclasses": SEES,
    "watch priorityclasses": SEES,
    "get nodes": MARKS,
    "list nodes": BINDS,
    "watch nodes": SEES,
    "patch nodes": MARKS,
    "patch nodes/status": MARKS,
    "create tokenreviews": ADMITS,
    "get leases": LEADS,
    "create leases": LEADS,
    "update leases": LEADS,
}
"""What does not come about without this right."""


async def until(fact: Callable[[], Awaitable[T]], what: str) -> T:
    """The first true answer of `fact`, which asks a server. Raises `TimeoutError` with `what`."""
    try:
        async with asyncio.timeout(DEADLINE_S):
            while not (answer := await fact()):
                await asyncio.sleep(LOOK_S)
    except TimeoutError:
        raise TimeoutError(f"not so within {DEADLINE_S} s: {what}") from None
    return answer


class Life:
    """All that a driver is to do, in the order in which it comes about."""

    def __init__(self, admin: Client, driver: UncheckedDriver, name: str) -> None:
        self._admin = admin
        self._driver = driver
        self._name = name
        self._url = ""
        self.came: list[str] = []

    async def live(self) -> None:
        """Until everything has come about."""
        steps = {
            LEADS: self._leads,
            ENDS: self._ends,
            BINDS: self._binds,
            ADMITS: self._admits,
            WRITES: self._writes,
            TELLS: self._tells,
            GIVES_BACK: self._gives_back,
            NAMES: self._names,
            MARKS: self._marks,
            SEES: self._sees,
        }
        for what, comes in steps.items():
            await comes()
            self.came.append(what)

    # ------------------------------------------------------------ what is to come about

    async def _leads(self) -> None:
        self._url = await self._driver.url()
        at = paths.leases(self._name, self._name)
        first = (await self._admin.get(at))["spec"]["renewTime"]

        async def renewed() -> bool:
            return bool((await self._admin.get(at))["spec"]["renewTime"] != first)

        await until(renewed, LEADS)

    async def _ends(self) -> None:
        at = paths.training_jobs(self._name, "over")

        async def gone() -> bool:
            try:
                await self._admin.get(at)
            except NotFound:
                return True
            return False

        await until(gone, ENDS)

    async def _binds(self) -> None:
        async def bound() -> bool:
            pods = await self._pods("gang")
            return len([pod for pod in pods if "nodeName" in pod["spec"]]) == 2

        await until(bound, BINDS)

    async def _admits(self) -> None:
        pod = (await self._pods("gang"))[0]
        node, token = pod["spec"]["nodeName"], await self._token(pod)

        async def admitted() -> bool:
            try:
                async with connect(
                    f"{self._url.replace('http', 'ws')}/v1alpha1/nodes/{node}/executor",
                    additional_headers={"Authorization": f"Bearer {token}"},
                    proxy=None,
                ):
                    return True
            except (InvalidHandshake, OSError):  # refused, or it takes long
                return False

        await until(admitted, ADMITS)

    async def _writes(self) -> None:
        async def written() -> bool:
            return bool((await self._status("gang")).get("nodes"))

        await until(written, WRITES)

    async def _tells(self) -> None:
        async def told() -> bool:
            events = (await self._admin.get(paths.events(self._name)))["items"]
            about = [each for each in events if each["regarding"]["name"] == "gang"]
            return "Allocating" in [each["reason"] for each in about]

        await until(told, TELLS)

    async def _gives_back(self) -> None:
        at = paths.training_jobs(self._name, "gang")
        await self._admin.patch(at, {"spec": {"suspend": True}})

        async def given_back() -> bool:
            return not await self._pods("gang")

        await until(given_back, GIVES_BACK)

    async def _names(self) -> None:
        why = f"pod taken-0-1 in namespace {self._name} is not of this job, and has the name"

        async def named() -> bool:
            return why in (await self._status("taken")).get("message", "")

        await until(named, NAMES)

    async def _marks(self) -> None:
        node = f"{self._name}-1"
        headers = {"Authorization": f"Bearer {self._driver.paths.user_token.read_text().strip()}"}
        at = f"{self._url}/v1alpha1/nodes/{node}/evict"
        async with httpx.AsyncClient(
            trust_env=False, verify=False, headers=headers, timeout=60
        ) as person:

            async def taken() -> bool:
                """Not while its database takes its time: then nothing has changed."""
                answer = await person.post(at, json={"reason": "to be repaired"})
                assert answer.status_code in (202, 503), answer.text
                return answer.status_code == 202

            await until(taken, "it takes the request")

        async def marked() -> bool:
            seen = await self._admin.get(paths.nodes(node))
            taints = [each["key"] for each in seen["spec"].get("taints", ())]
            said = {each["type"]: each["status"] for each in seen["status"]["conditions"]}
            annotated = seen["metadata"].get("annotations", {})
            return (
                names.TAINT in taints
                and said.get(names.CONDITION) == "True"
                and set(names.MARKS) <= annotated.keys()
            )

        await until(marked, MARKS)

    async def _sees(self) -> None:
        assert not self.blind(), self._driver.log.read_text()

    def blind(self) -> bool:
        """Whether it ever said that it cannot see something."""
        return "cannot see" in self._driver.log.read_text()

    # ------------------------------------------------------------ at the API server

    async def _pods(self, job: str) -> list[Object]:
        """Those that are to stay."""
        found = await self._admin.get(paths.pods(self._name), labelSelector=f"{names.JOB}={job}")
        return [pod for pod in found["items"] if "deletionTimestamp" not in pod["metadata"]]

    async def _status(self, job: str) -> Object:
        found = await self._admin.get(paths.training_jobs(self._name, job))
        status: Object = found.get("status", {})
        return status

    async def _token(self, pod: Object) -> str:
        """As its kubelet gets one for it."""
        about = {key: pod["metadata"][key] for key in ("name", "uid")}
        spec: Object = {"audiences": [names.AUDIENCE], "expirationSeconds": 600}
        spec |= {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", **about}}
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        at = paths.service_accounts(self._name, "default", "token")
        token: str = (await self._admin.create(at, body))["status"]["token"]
        return token


async def prepare(admin: Client, namespace: str) -> None:
    """What a driver is to find: a job that is over, a pod of nobody, and two jobs that wait."""
    at = paths.training_jobs(namespace)
    await admin.create(at, _job("over", ttlS=1))
    over: Object = {"type": "Failed", "status": "True", "reason": "Failed", "message": "long ago"}
    over |= {"lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1}
    await admin.patch(f"{at}/over/status", {"status": {"conditions": [over]}})
    await admin.create(paths.pods(namespace), _pod_of_nobody("taken-0-1"))
    await admin.create(at, _job("taken"))
    await admin.create(at, _job("gang", nodes=2))


def _job(name: str, **spec: Any) -> Object:
    wanted = {"command": ["true"], "pod": {"image": "holdfast-executor:1"}, **spec}
    what: Object = {"apiVersion": names.API_VERSION, "kind": names.KIND}
    return {**what, "metadata": {"name": name}, "spec": wanted}


def _pod_of_nobody(name: str) -> Object:
    """No scheduler places it, so it takes no room."""
    containers = [{"name": "own", "image": "own:1"}]
    spec = {"containers": containers, "schedulingGates": [{"name": "of/tests"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
