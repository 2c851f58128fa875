"""What each entry of a real loop notes that people want to be told of."""

from itertools import pairwise

from tests.rest.conftest import Driver
from tests.rest.test_rest_nodes import NODE

Told = list[tuple[str, str, str, str]]


def noted(driver: Driver) -> Told:
    """Over the whole journal."""
    return [
        (each.what, each.name, each.before, each.now)
        for entry in driver.control.journal.entries()
        for each in entry.turned
    ]


async def test_jobs_nodes_incidents_and_the_brake_turn_once_each(driver: Driver) -> None:
    await driver.happened(*NODE)
    await driver.submit()
    reason = {"reason": "loud fan"}
    await driver.http.post("/v1alpha1/jobs/speech/stop")
    await driver.http.post("/v1alpha1/nodes/node-1/evict", json=reason)
    await driver.http.post("/v1alpha1/nodes/node-1/restore", json=reason)
    for act in ("apply", "release"):
        await driver.http.post(f"/v1alpha1/brake/{act}", json=reason)
    told = noted(driver)
    jobs = [each for each in told if each[0] == "job"]
    assert jobs[0] == ("job", "speech", "", "Allocating") or jobs[0][2:] == ("", "Pending")
    for (_, _, _, now), (_, _, before, _) in pairwise(jobs):
        assert now == before, "each begins where the one before ended"
    assert jobs[-1][3] == driver.loop.state.jobs["speech"].phase
    assert ("node", "node-1", "", "evicted") in told
    assert ("node", "node-1", "evicted", "back") in told
    assert [each[2:] for each in told if each[0] == "brake"] == [("off", "on"), ("on", "off")]
    incidents = [each for each in told if each[0] == "incident"]
    assert [each[1:] for each in incidents[:1]] == [("1", "", "found")]
    for number, each in driver.loop.state.incidents.items():
        ends = [told for told in incidents if told[1:] == (str(number), "found", "over")]
        assert len(ends) == (0 if each.open else 1)


async def test_a_job_that_is_deleted_is_told_of(driver: Driver) -> None:
    await driver.submit()
    await driver.http.delete("/v1alpha1/jobs/speech")
    assert noted(driver)[-1][3] == "Deleted"
