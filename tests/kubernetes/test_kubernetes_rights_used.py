"""The driver needs every verb of its shipped roles, and no other, for what it is to do.

On a real API server, with nodes without machines: one driver has all that is shipped and does all
of it; for each verb one more driver lacks that alone. None of them is asked for its rights before
it leads, so what fails is the work itself. All of them live at about the same time, each by an
account of its own, in a namespace, with nodes, a Lease and a database of its own.
"""

import asyncio
import re
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import httpx
import pytest
from made_nodes import MadeNodes
from postgres import Postgres, running_postgres
from shipped_rights import Audit, grant, granted, reviews, revoke
from unchecked_driver import UncheckedDriver, UncheckedDrivers, unchecked_drivers
from waiting import DEADLINE_S
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from holdfast.driver.adapters.kubernetes import names, paths, rights
from holdfast.driver.adapters.kubernetes.client import Client, Limits
from holdfast.driver.adapters.kubernetes.errors import NotFound
from holdfast.lab.kubernetes.plane import ControlPlane

pytestmark = [pytest.mark.kubernetes, pytest.mark.slow, pytest.mark.timeout(600)]

Object = dict[str, Any]
T = TypeVar("T")

AT_ONCE = 4
"""Drivers that live at a time: two cores have no more to give."""
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


class Lived(NamedTuple):
    """What became of a driver: what came about, what it was let do and not let do, and its log."""

    came: tuple[str, ...]
    used: set[str]
    refused: set[str]
    log: str


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
            except InvalidStatus:
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
        async with httpx.AsyncClient(trust_env=False, headers=headers, timeout=60) as person:
            at = f"{self._url}/v1alpha1/nodes/{node}/evict"
            answer = await person.post(at, json={"reason": "to be repaired"})
        assert answer.status_code == 202, answer.text

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


# ---------------------------------------------------------------- around each life


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


class Lives:
    """Where drivers live."""

    def __init__(
        self, plane: ControlPlane, postgres: Postgres, drivers: UncheckedDrivers, folder: Path
    ) -> None:
        self._plane = plane
        self._drivers = drivers
        self._postgres = postgres
        self._folder = folder
        self._audit = Audit(plane.audit_log)
        self._room = asyncio.Semaphore(AT_ONCE)
        self._passwords = folder / "passwords"
        self._passwords.write_text(f"127.0.0.1:*:*:*:{postgres.password}\n")
        self._passwords.chmod(0o600)

    async def all(self) -> dict[str, Lived]:
        """What became of the driver that lacks each right, and of one that lacks none ("")."""
        lacking = ["", *granted()]
        limits = Limits(calls_per_s=10_000.0, burst=10_000)
        config, agent = self._plane.admin, "tests"
        async with Client.from_kubeconfig(config, user_agent=agent, limits=limits) as admin:
            lived = await asyncio.gather(*(self._one(admin, each) for each in lacking))
        return dict(zip(lacking, lived, strict=True))

    async def _one(self, admin: Client, lacking: str) -> Lived:
        name = f"without-{re.sub('[ /]', '-', lacking or 'nothing')}"
        async with self._room, _home(admin, name, lacking), _nodes(admin, name):
            config = await asyncio.to_thread(self._plane.as_account, name, name)
            await _in_force(config, name, lacking)
            await prepare(admin, name)
            driver = self._spawn(name, config)
            life = Life(admin, driver, name)
            try:
                failed = await self._watched(life, name, lacking)
            finally:
                driver.kill()
        used, refused = self._audit.used(name), self._audit.refused(name)
        return Lived(tuple(life.came), used, refused, f"{driver.log.read_text()}\n{failed}")

    async def _watched(self, life: Life, name: str, lacking: str) -> str:
        """Let it live until a right was refused that it lacks, or all has come about. Why that did
        not, where it failed.
        """
        living = asyncio.create_task(life.live())
        try:
            while not (living.done() or self._shows(life, name, lacking)):
                await asyncio.wait([living], timeout=LOOK_S)
        finally:
            living.cancel()
            await asyncio.wait([living])
        failed = None if living.cancelled() else living.exception()
        return "".join(traceback.format_exception(failed)) if failed else ""

    def _shows(self, life: Life, name: str, lacking: str) -> bool:
        """Whether it was refused what it lacks; where it then cannot see something, whether it says
        so.
        """
        refused = lacking in self._audit.refused(name)
        return refused and (NEEDED_FOR[lacking] != SEES or life.blind())

    def _spawn(self, name: str, config: Path) -> UncheckedDriver:
        database = self._postgres.new_database()
        words = ["--cluster", "kubernetes", "--kubeconfig", str(config), "--namespace", name]
        words += ["--node-selector", f"made={name}", "--journal", self._postgres.url(database)]
        words += ["--standby", "--lease", f"{name}/{name}"]
        state, passwords = self._folder / name, str(self._passwords)
        return self._drivers.spawn(state, *words, PGPASSFILE=passwords)


@asynccontextmanager
async def _home(admin: Client, name: str, lacking: str) -> AsyncIterator[None]:
    """A namespace, and the account in it."""
    await admin.create(paths.namespaces(), {"metadata": {"name": name}})
    try:
        await _pods_may_be(admin, name)
        await grant(admin, name, lacking=lacking)
        yield
    finally:
        await admin.delete(paths.pods(name), grace_s=0)  # no kubelet would let them go
        await admin.delete(paths.namespaces(name))
        await revoke(admin, name)


@asynccontextmanager
async def _nodes(admin: Client, name: str) -> AsyncIterator[None]:
    nodes = MadeNodes(admin, f"{name}-1", f"{name}-2", mark=name)
    await nodes.make()
    keeping = asyncio.create_task(nodes.keep())
    try:
        yield
    finally:
        keeping.cancel()
        await asyncio.wait([keeping])
        await nodes.remove()


async def _in_force(config: Path, name: str, lacking: str) -> None:
    """Once the API server goes by the account's roles."""
    asked, less = reviews(name), 1 if lacking else 0
    async with Client.from_kubeconfig(config, user_agent="tests") as account:

        async def known() -> bool:
            return len(await rights.missing(account, asked)) == less

        await until(known, "the roles are in force")


async def _pods_may_be(admin: Client, namespace: str) -> None:
    """Once the namespace has the account that pods have by default."""

    async def there() -> bool:
        found = await admin.get(paths.service_accounts(namespace))
        return "default" in [each["metadata"]["name"] for each in found["items"]]

    await until(there, "pods may be made")


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with running_postgres() as server:
        yield server


@pytest.fixture(scope="module")
def lived(
    crd: ControlPlane, postgres: Postgres, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Lived]:
    """By the right that each lacks; "" has all of them."""

    async def live() -> dict[str, Lived]:
        return await Lives(crd, postgres, drivers, tmp_path_factory.mktemp("lives")).all()

    with unchecked_drivers() as drivers:
        return asyncio.run(live())


def test_with_its_shipped_roles_a_driver_does_all_that_it_is_to_do_and_uses_each_verb_of_them(
    lived: dict[str, Lived],
) -> None:
    whole = lived[""]
    assert set(whole.came) == set(NEEDED_FOR.values()), whole.log
    assert whole.refused == set()
    assert set(granted()) - whole.used == set(), "granted, and not used"
    assert whole.used - set(granted()) == set(), "used, and granted by something else"


def test_it_is_known_what_each_shipped_verb_is_for() -> None:
    assert NEEDED_FOR.keys() == set(granted())


@pytest.mark.parametrize("right", granted())
def test_without_it_the_work_that_needs_it_does_not_come_about(
    lived: dict[str, Lived], right: str
) -> None:
    without = lived[right]
    assert without.refused == {right}, without.log
    assert right not in without.used
    assert NEEDED_FOR[right] not in without.came
