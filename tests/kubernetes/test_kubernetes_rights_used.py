"""The driver needs every verb of its shipped roles, and no other, for what it is to do.

On a real API server, with nodes without machines: one driver has all that is shipped and does all
of it; for each verb one more driver lacks that alone. None of them is asked for its rights before
it leads, so what fails is the work itself. All of them live at about the same time, each by an
account of its own, in a namespace, with nodes, a Lease and a database of its own.
"""

import asyncio
from collections.abc import Iterator

import pytest
from driver_lives import Lived, Lives
from one_life import NEEDED_FOR
from postgres import Postgres, running_postgres
from shipped_rights import granted
from unchecked_driver import unchecked_drivers

from holdfast.lab.kubernetes.plane import ControlPlane

pytestmark = [pytest.mark.kubernetes, pytest.mark.slow, pytest.mark.timeout(600)]


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
