"""Jobs over REST: submitted once, listed, changed; and everything wrong told as a problem."""

import asyncio
import json
from typing import Any

import pytest
from msgspec.structs import replace
from tests.rest.conftest import JOB, Driver

from holdfast.driver.adapters.rest.body import LIMIT_BYTES
from holdfast.driver.people.spec_to_plan import plan_of
from holdfast.driver.people.update import update_of
from holdfast.protocol.collectives import environment
from holdfast.protocol.jobcheck import check

JOBS = "/v1alpha1/jobs"


async def test_a_submitted_job_is_there_at_once(driver: Driver) -> None:
    answer = await driver.submit()
    assert answer.status_code == 201, answer.text
    assert answer.headers["location"] == f"{JOBS}/speech"
    job = (await driver.http.get(answer.headers["location"])).json()
    assert job["phase"] == "Pending"
    assert job["ranks"] == 2
    assert job["waiting"]
    assert job["spec"]["spec"]["checkpoint"]["storeIntervalSteps"] == 50


async def test_the_same_key_and_body_is_done_once_and_answered_the_same(driver: Driver) -> None:
    key = {"Idempotency-Key": "k1"}
    answers = await asyncio.gather(
        *(driver.http.post(JOBS, json=JOB, headers=key) for _ in range(4))
    )
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.text for answer in answers}) == 1
    assert len((await driver.http.get(JOBS)).json()["items"]) == 1


async def test_a_key_used_for_another_body_is_refused(driver: Driver) -> None:
    key = {"Idempotency-Key": "k1"}
    await driver.http.post(JOBS, json=JOB, headers=key)
    other = {**JOB, "metadata": {"name": "other"}}
    answer = await driver.http.post(JOBS, json=other, headers=key)
    assert answer.status_code == 422
    assert "k1" in answer.json()["detail"]
    assert list(driver.control.state.jobs) == ["speech"]


async def test_a_duplicate_name_is_one_mistake_with_its_fix(driver: Driver) -> None:
    await driver.submit()
    answer = await driver.submit()
    assert answer.status_code == 409
    (mistake,) = answer.json()["errors"]
    assert mistake["field"] == "metadata.name"
    assert "another name" in mistake["fix"]


async def test_a_job_that_meets_a_defect_is_a_problem_of_ours_and_nothing_changes(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(turn: Any, name: str) -> bool:
        raise KeyError("a defect of ours")

    before = driver.control.sequence
    with monkeypatch.context() as patched:
        patched.setattr("holdfast.driver.core.decide.advance", broken)
        answer = await driver.submit()
    assert answer.status_code == 500
    assert "'speech' meets a defect of Holdfast" in answer.json()["detail"]
    assert driver.control.sequence == before
    assert (await driver.submit()).status_code == 201


async def test_all_mistakes_come_at_once_and_nothing_changes(driver: Driver) -> None:
    before = driver.control.sequence
    wrong = {"metadata": {"name": "x"}, "spec": {"nodes": 4, "topology": {"tp": 3}, "nodez": 1}}
    answer = await driver.http.post(JOBS, json=wrong)
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    fields = {mistake["field"] for mistake in answer.json()["errors"]}
    assert fields == {"spec.command", "spec.nodez", "spec.topology"}
    assert all(mistake["why"] and mistake["fix"] for mistake in answer.json()["errors"])
    assert driver.control.sequence == before


@pytest.mark.parametrize("body", [b"{", b"", b"nodes: 4", b"[" * 100_000])
async def test_a_body_that_is_not_json_is_a_problem(driver: Driver, body: bytes) -> None:
    answer = await driver.http.post(JOBS, content=body)
    assert answer.status_code == 400
    assert "not JSON" in answer.json()["detail"]


@pytest.mark.parametrize("where", ["nodes/node-1/evict", "nodes/node-1/maintain", "brake/apply"])
async def test_half_a_character_is_refused_before_anything_is_decided(
    driver: Driver, where: str
) -> None:
    """JSON may have it, and nothing that writes it down."""
    before = driver.control.sequence
    answer = await driver.http.post(f"/v1alpha1/{where}", content=rb'{"reason": "a\udcff"}')
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "reason"
    assert driver.control.sequence == before


@pytest.mark.parametrize("told", [True, False], ids=["length told", "in chunks"])
async def test_a_body_over_the_limit_is_refused_unread(driver: Driver, told: bool) -> None:
    body = b" " * (LIMIT_BYTES + 1)

    async def chunks() -> Any:
        for begin in range(0, len(body), 65_536):
            yield body[begin : begin + 65_536]

    answer = await driver.http.post(JOBS, content=body if told else chunks())
    assert answer.status_code == 413
    assert "limit is 1,048,576" in answer.json()["detail"]


@pytest.mark.parametrize("authorization", [None, "Bearer wrong", "Basic abc", "Bearer ünïcode"])
async def test_a_wrong_token_is_refused_everywhere_below_the_version(
    driver: Driver, authorization: str | None
) -> None:
    del driver.http.headers["authorization"]
    headers = {"authorization": authorization.encode("latin-1")} if authorization else {}
    for path in ("jobs", "nodes", "incidents", "events", "jobs/speech/story"):
        answer = await driver.http.get(f"/v1alpha1/{path}", headers=headers)
        assert answer.status_code == 401, path
        assert answer.headers["www-authenticate"] == "Bearer"
        assert "tokens/user" in answer.json()["fix"]


async def test_an_unknown_path_job_and_method_are_problems(driver: Driver) -> None:
    await driver.submit()
    nowhere = await driver.http.get("/v1alpha1/nowhere")
    assert (nowhere.status_code, nowhere.json()["status"]) == (404, 404)
    nobody = await driver.http.get(f"{JOBS}/nobody")
    assert nobody.status_code == 404
    assert "speech" in nobody.json()["fix"]
    assert (await driver.http.patch(f"{JOBS}/speech")).status_code == 405
    assert (await driver.http.post(f"{JOBS}/nobody/stop")).status_code == 404


async def test_pages_cover_all_jobs_once_in_order(driver: Driver) -> None:
    names = [f"job-{number}" for number in range(7)]
    for name in names:
        await driver.submit(name=name)
    seen: list[str] = []
    token = None
    while True:
        query = {"limit": 3} | ({"continue": token} if token else {})
        page = (await driver.http.get(JOBS, params=query)).json()
        seen += [job["name"] for job in page["items"]]
        token = page["continue"]
        if token is None:
            break
    assert seen == names


async def test_the_list_is_filtered_by_phase_label_and_name(driver: Driver) -> None:
    await driver.submit(name="a-one")
    await driver.submit(name="a-two", labels={"team": "vision"})
    await driver.submit(name="b-one", labels={"team": "vision", "size": "7b"})
    await driver.http.post(f"{JOBS}/a-two/suspend")

    async def listed(**query: Any) -> list[str]:
        items = (await driver.http.get(JOBS, params=query)).json()["items"]
        return [job["name"] for job in items]

    assert await listed(name="a-*") == ["a-one", "a-two"]
    assert await listed(label="team=vision") == ["a-two", "b-one"]
    assert await listed(label=["team=vision", "size=7b"]) == ["b-one"]
    assert await listed(phase="Suspended") == ["a-two"]
    assert await listed(phase=["Suspended", "Pending"]) == ["a-one", "a-two", "b-one"]


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ({"limit": 0}, 422),
        ({"phase": "Dead"}, 422),
        ({"label": "x"}, 422),
        ({"continue": "?"}, 400),
    ],
)
async def test_a_wrong_query_is_a_problem(
    driver: Driver, query: dict[str, Any], status: int
) -> None:
    answer = await driver.http.get(JOBS, params=query)
    assert answer.status_code == status
    assert answer.json()["detail"]


async def test_a_job_is_suspended_resumed_stopped_and_deleted(driver: Driver) -> None:
    await driver.submit()
    for action, phase in (("suspend", "Suspended"), ("resume", "Pending"), ("stop", "Stopped")):
        answer = await driver.http.post(f"{JOBS}/speech/{action}")
        assert answer.status_code == 202
        assert answer.json()["why"]
        assert (await driver.http.get(f"{JOBS}/speech")).json()["phase"] == phase
    assert (await driver.http.post(f"{JOBS}/speech/resume")).status_code == 409
    assert (await driver.http.delete(f"{JOBS}/speech")).status_code == 202
    assert (await driver.http.get(f"{JOBS}/speech")).status_code == 404


async def test_a_job_is_given_another_version_by_its_whole_document(driver: Driver) -> None:
    await driver.submit()
    better = JOB | {"spec": JOB["spec"] | {"command": ["better.py"], "env": {"LR": "1e-4"}}}
    taken = await driver.http.put(f"{JOBS}/speech", json=better)
    assert taken.status_code == 202
    assert "version 2, which changes command, env" in taken.json()["why"]
    job = (await driver.http.get(f"{JOBS}/speech")).json()
    assert (job["version"], job["spec"]["spec"]["command"]) == (2, ["better.py"])
    again = await driver.http.put(f"{JOBS}/speech", json=better)
    (mistake,) = again.json()["errors"]
    assert (again.status_code, mistake["field"]) == (422, "spec")
    calmer = JOB | {"spec": better["spec"] | {"timeouts": {"hangFloorS": 60}}}
    taken = await driver.http.put(f"{JOBS}/speech", json=calmer)
    assert taken.json()["why"].startswith("a person changes timeouts of speech")
    assert (await driver.http.get(f"{JOBS}/speech")).json()["version"] == 2


async def test_a_job_of_an_older_driver_has_what_is_new_in_the_spec_by_default(
    driver: Driver,
) -> None:
    """Else each field that came since would be one that has to stay."""
    await driver.submit()
    job = driver.control.state.jobs["speech"]
    older = json.loads(job.plan.spec)
    del older["spec"]["communication"], older["spec"]["checkpoint"]["beginFrom"]
    plan = replace(job.plan, spec=json.dumps(older).encode())
    older_job = replace(job, versions=(replace(job.version, plan=plan),))
    better = JOB | {"spec": JOB["spec"] | {"env": {"LR": "1e-4"}}}
    wanted = plan_of(check(better), driver.control.settings.paths, life="")
    assert update_of(older_job, wanted, by="ada").fields == ("env",)


async def test_what_has_to_stay_is_refused_with_all_that_is_wrong_and_nothing_changes(
    driver: Driver,
) -> None:
    await driver.submit()
    store = {"storeUrl": "file:///elsewhere", "beginFrom": "file:///old/job/life"}
    more = {"nodes": 7, "command": ["better.py"], "checkpoint": store}
    refused = await driver.http.put(f"{JOBS}/speech", json=JOB | {"spec": JOB["spec"] | more})
    assert refused.status_code == 422
    fields = {mistake["field"] for mistake in refused.json()["errors"]}
    assert {"spec.nodes", "spec.checkpoint.storeUrl", "spec.checkpoint.beginFrom"} <= fields
    named = JOB | {"metadata": {"name": "other"}}
    (mistake,) = (await driver.http.put(f"{JOBS}/speech", json=named)).json()["errors"]
    assert mistake["field"] == "metadata.name"
    assert (await driver.http.put(f"{JOBS}/nobody", json=JOB)).status_code == 404
    assert (await driver.http.get(f"{JOBS}/speech")).json()["version"] == 1


async def test_a_job_is_told_where_to_begin_while_it_does_not_train(driver: Driver) -> None:
    await driver.submit()
    resume = f"{JOBS}/speech/resume"
    assert (await driver.http.post(resume, params={"from_step": -1})).status_code == 422
    await driver.http.post(f"{JOBS}/speech/suspend")
    assert (await driver.http.post(resume, params={"from_step": 5})).status_code == 404
    taken = await driver.http.post(resume, params={"from_step": 0})
    assert taken.status_code == 202
    assert "speech to go on from the beginning" in taken.json()["why"]


async def test_a_deletion_asked_for_twice_with_one_key_is_answered_twice(driver: Driver) -> None:
    await driver.submit()
    key = {"Idempotency-Key": "k2"}
    first = await driver.http.delete(f"{JOBS}/speech", headers=key)
    again = await driver.http.delete(f"{JOBS}/speech", headers=key)
    assert (first.status_code, first.text) == (again.status_code, again.text)


async def test_with_a_full_disk_no_job_is_taken_and_the_driver_says_so(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    why = "journal: the disk is full."
    monkeypatch.setattr(driver.control.journal, "shortage", lambda: why)
    answer = await driver.submit()
    assert answer.status_code == 503
    assert answer.json()["detail"] == why
    ready = await driver.http.get("/readyz")
    assert (ready.status_code, ready.json()["why"]) == (503, why)
    assert (await driver.http.get("/healthz")).text == "ok\n"


async def test_a_job_submitted_again_starts_anew_in_the_same_store_and_says_so(
    driver: Driver,
) -> None:
    spec = {**JOB["spec"], "checkpoint": {"storeUrl": "file:///data/ckpt"}}
    folders = set()
    for _ in range(2):
        done = (await driver.http.post(JOBS, json={**JOB, "spec": spec})).json()
        folder = (await driver.http.get(f"{JOBS}/speech")).json()["store_url"]
        assert folder.startswith("file:///data/ckpt/life-")
        assert f"it starts anew, with checkpoints of its own alone in {folder}" in done["why"]
        folders.add(folder)
        await driver.http.post(f"{JOBS}/speech/stop")
        await driver.http.delete(f"{JOBS}/speech")
    assert len(folders) == 2


async def test_a_job_without_a_store_of_its_users_says_nothing_of_it(driver: Driver) -> None:
    assert "checkpoints" not in (await driver.submit()).json()["why"]


async def test_a_name_that_comes_twice_in_a_body_is_refused(driver: Driver) -> None:
    answer = await driver.http.post(JOBS, content=b'{"spec": {"nodes": 1, "nodes": 2}}')
    assert answer.status_code == 400
    assert answer.json()["detail"] == (
        "the body is not JSON: 'nodes' is there twice; remove one of them."
    )


async def test_text_that_no_program_can_be_given_is_told_with_its_field(driver: Driver) -> None:
    spec = {**JOB["spec"], "command": ["echo", "a\0b"], "env": {"A": "\ud800"}}
    answer = await driver.http.post(JOBS, content=json.dumps({**JOB, "spec": spec}))
    assert answer.status_code == 422
    assert [each["field"] for each in answer.json()["errors"]] == ["spec.command[1]", "spec.env.A"]


async def test_where_ranks_meet_and_what_they_are_told_is_recorded_with_the_job(
    driver: Driver,
) -> None:
    communication = {"rendezvous": "redis://h:6379/0", "ibTimeout": 22}
    spec = {**JOB["spec"], "communication": communication, "env": {"NCCL_DEBUG": "INFO"}}
    done = (await driver.http.post(JOBS, json={**JOB, "spec": spec})).json()
    job = (await driver.http.get(f"{JOBS}/speech")).json()
    assert job["rendezvous"] == "redis://h:6379/0"
    assert job["communication"] == environment(ib_timeout=22) | {"NCCL_DEBUG": "INFO"}
    assert "; its ranks meet in redis://h:6379/0; they have NCCL_IB_TIMEOUT=22" in done["why"]


@pytest.mark.parametrize(
    ("command", "elsewhere"),
    [(["bash", "-c", "python train.py"], True), (["python", "a.py"], False)],
)
async def test_whose_ranks_do_not_meet_there_by_themselves_is_told(
    driver: Driver, command: list[str], elsewhere: bool
) -> None:
    meets = {"rendezvous": "redis://h:6379/0"}
    spec = {**JOB["spec"], "communication": meets, "command": command}
    done = (await driver.http.post(JOBS, json={**JOB, "spec": spec})).json()
    told = "; its command is no script of Python, and what it starts meets at MASTER_ADDR and"
    assert (told in done["why"]) is elsewhere


async def test_a_job_like_others_says_nothing_of_how_its_ranks_meet(driver: Driver) -> None:
    assert "meet" not in (await driver.submit()).json()["why"]
    assert (await driver.http.get(f"{JOBS}/speech")).json()["communication"] == environment()
