"""The job spec: every field explains itself, and every mistake is told at once with its fix."""

import copy
from math import inf, nan
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.protocol import storeurl
from holdfast.protocol.jobcheck import check
from holdfast.protocol.jobspec import schema
from holdfast.protocol.mistakes import BadDocument, Mistake

GOOD: dict[str, Any] = {
    "apiVersion": "holdfast.dev/v1alpha1",
    "kind": "TrainingJob",
    "metadata": {"name": "speech", "labels": {"team": "speech"}},
    "spec": {
        "nodes": 4,
        "ranksPerNode": 2,
        "command": ["python", "train.py"],
        "topology": {"tp": 2, "pp": 2, "dp": 2},
    },
}


def job(**spec: Any) -> dict[str, Any]:
    document = copy.deepcopy(GOOD)
    document["spec"].update(spec)
    return document


def mistakes(document: object) -> dict[str, Mistake]:
    with pytest.raises(BadDocument) as refused:
        check(document)
    return {mistake.field: mistake for mistake in refused.value.mistakes}


def test_a_good_job_is_taken_with_its_defaults() -> None:
    taken = check(GOOD)
    assert taken.spec.world_size == 8
    assert taken.spec.checkpoint.store_interval_steps == 50
    assert check(job(topology={"tp": 2})).spec.sized().dp == 4


def test_what_was_taken_can_be_written_out_and_taken_again() -> None:
    assert check(check(GOOD).model_dump(mode="json", by_alias=True)) == check(GOOD)


def test_mistakes_in_fields_and_between_fields_are_told_together() -> None:
    found = mistakes(
        {
            "metadata": {"name": "Bad_Name"},
            "spec": {
                "nodes": 4,
                "ranksPerNode": 2,
                "standbys": -1,
                "comand": ["python"],
                "topology": {"tp": 2, "pp": 2, "dp": 3},
                "env": {"RANK": "1"},
            },
        }
    )
    assert set(found) == {
        "metadata.name",
        "spec.command",
        "spec.comand",
        "spec.standbys",
        "spec.topology",
        "spec.env",
    }


def test_sizes_that_do_not_multiply_name_both_products_and_two_ways_out() -> None:
    found = mistakes(job(topology={"tp": 2, "pp": 2, "dp": 3}))["spec.topology"]
    assert found.why == "tp 2 x pp 2 x dp 3 = 12 ranks, but nodes 4 x ranksPerNode 2 = 8."
    assert found.fix == "Set dp: 2, or nodes: 6."


def test_sizes_are_not_held_together_while_one_of_them_is_no_number() -> None:
    assert set(mistakes(job(nodes="four", topology={"tp": 3}))) == {"spec.nodes"}


@pytest.mark.parametrize(
    ("spec", "field", "why", "fix"),
    [
        ({"nodez": 4}, "spec.nodez", "no field 'nodez'", "Did you mean 'nodes'?"),
        ({"bogus": 4}, "spec.bogus", "no field 'bogus'", "Known here: checkpoint,"),
        ({"nodes": 0}, "spec.nodes", "0 is out of bounds", "Set at least 1."),
        (
            {"mfu": {"peakTflops": nan}},
            "spec.mfu.peakTflops",
            "nan is not a finite",
            "Write a finite number.",
        ),
        (
            {"mfu": {"peakTflops": inf}},
            "spec.mfu.peakTflops",
            "inf is not a finite",
            "Write a finite",
        ),
        (
            {"mfu": {"device": "h100 sxm"}},
            "spec.mfu.device",
            "the peak of 'h100 sxm' is not known",
            "Did you mean 'H100-SXM'? Or give peakTflops.",
        ),
        (
            {"mfu": {"device": "abacus"}},
            "spec.mfu.device",
            "is not known",
            "Known: A100, H100-SXM, ",
        ),
        (
            {"mfu": {"device": "A100", "peakTflops": 300}},
            "spec.mfu",
            "device and peakTflops both tell the peak.",
            "Give one of them.",
        ),
        ({"nodes": "4"}, "spec.nodes", "not a whole number", "Write 4, without quotes."),
        ({"nodes": True}, "spec.nodes", "true is not a whole number", "Write a whole number."),
        ({"nodes": 1.5}, "spec.nodes", "not a whole number", "Write a whole number."),
        ({"command": "python train.py"}, "spec.command", "not a list", "Write a list."),
        ({"command": []}, "spec.command", "wrong length", "Give at least 1 entries."),
        ({"env": {"A": 1}}, "spec.env.A", "1 is not text", 'Write "1", with quotes.'),
        ({"env": {"HOLDFAST_X": "1"}}, "spec.env", "set by Holdfast", "Remove it from env."),
        (
            {"timeouts": {"graceS": 99_999}},
            "spec.timeouts.graceS",
            "out of bounds",
            "Set at most 3600.",
        ),
        ({"timeouts": {"stuckMaxS": 0}}, "spec.timeouts.stuckMaxS", "0 is out of", "more than 0."),
        ({"timeouts": {"stuckMaxS": -1}}, "spec.timeouts.stuckMaxS", "-1 is out of", "more than"),
        (
            {"timeouts": {"stuckMaxS": "1m"}},
            "spec.timeouts.stuckMaxS",
            "a number",
            "Write a number",
        ),
        (
            {"timeouts": {"stuckMaxS": float("nan")}},
            "spec.timeouts.stuckMaxS",
            "finite",
            "Write a finite number.",
        ),
        (
            {"timeouts": {"stuckMaxS": 700}},
            "spec.timeouts.stuckMaxS",
            "700 is longer than pauseMaxS 600: a rank that works would have less time than one",
            "Set at most 600, or raise pauseMaxS.",
        ),
        ({"deadlineS": float("nan")}, "spec.deadlineS", "finite", "Write a finite number."),
        (
            {"logRules": [{"pattern": "x", "actoin": "report"}]},
            "spec.logRules[0].actoin",
            "no field 'actoin'",
            "Did you mean 'action'?",
        ),
        (
            {"topology": {"tp": 2, "order": ["tp", "tp", "dp"]}},
            "spec.topology",
            "each axis once",
            "exactly once",
        ),
        (
            {"topology": {"order": ["tp", "zp", "dp"]}},
            "spec.topology.order[1]",
            '"zp" is not one of the choices',
            "'dp', 'pp' or 'tp'",
        ),
    ],
)
def test_a_mistake_names_field_value_and_fix(
    spec: dict[str, Any], field: str, why: str, fix: str
) -> None:
    found = mistakes(job(**spec))
    assert set(found) == {field}
    assert why in found[field].why
    assert fix in found[field].fix


@pytest.mark.parametrize("document", [None, [], "job", 3])
def test_what_is_no_mapping_is_refused_in_a_sentence(document: object) -> None:
    assert "not a job" in mistakes(document)[""].why


def test_a_missing_command_is_said_so() -> None:
    document = job()
    del document["spec"]["command"]
    assert mistakes(document)["spec.command"].why == "it is missing."


def test_a_wrong_kind_or_version_is_refused() -> None:
    found = mistakes({**GOOD, "kind": "Pod", "apiVersion": "v1"})
    assert set(found) == {"kind", "apiVersion"}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
FIELDS = st.sampled_from(sorted(schema()["$defs"]["Spec"]["properties"]))


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(FIELDS, JSON, max_size=6))
def test_any_spec_is_taken_or_refused_with_whole_sentences(spec: dict[str, Any]) -> None:
    told: tuple[Mistake, ...] = ()
    try:
        check(job(**spec))
    except BadDocument as refused:
        told = refused.mistakes or (Mistake(field="", value="", why="", fix=""),)
    for mistake in told:
        assert mistake.field.startswith("spec")
        assert mistake.why.endswith(".")
        assert "pydantic" not in str(mistake)


def fields(node: dict[str, Any], at: str = "") -> list[tuple[str, dict[str, Any], bool]]:
    """Every field of the exported schema: its path, its schema, whether it is required."""
    definitions = schema()["$defs"]
    found = []
    for name, inner in node.get("properties", {}).items():
        path = f"{at}.{name}" if at else name
        found.append((path, inner, name in node.get("required", ())))
        for part in (inner, inner.get("items", {})):
            if "$ref" in part:
                found += fields(definitions[part["$ref"].rsplit("/", 1)[1]], path)
    return found


def test_a_budget_of_which_one_field_is_given_keeps_the_defaults_of_the_other() -> None:
    recovery = {"infrastructure": {"windowS": 600}, "user": {"restarts": 5}}
    checked = check(job(recovery=recovery)).spec.recovery
    infrastructure, user = checked.infrastructure, checked.user
    assert (infrastructure.restarts, infrastructure.window_s) == (100, 600)
    assert (user.restarts, user.window_s) == (5, 3_600)


@pytest.mark.parametrize(
    ("path", "inner", "required"), [pytest.param(*each, id=each[0]) for each in fields(schema())]
)
def test_every_field_has_a_sentence_a_default_and_a_bound(
    path: str, inner: dict[str, Any], required: bool
) -> None:
    assert len(inner["description"]) > 10, path
    assert required or "default" in inner or "default" in str(inner) or inner["type"] == "object"
    if path.endswith("S") and not path.endswith("PerS"):
        assert "second" in inner["description"].lower(), path
    assert bounded(inner), f"{path} has no bound: {inner}"


def bounded(inner: dict[str, Any]) -> bool:
    """A number has a maximum, text and lists a length; the rest is a choice or made of fields."""
    if "anyOf" in inner:
        return all(bounded(each) for each in inner["anyOf"])
    keys = {
        "integer": "maximum",
        "number": "maximum",
        "string": "maxLength",
        "array": "maxItems",
        "object": "maxProperties",
    }
    if any(key in inner for key in ("$ref", "enum", "const")):
        return True
    return inner["type"] in ("boolean", "null") or keys[inner["type"]] in inner


@pytest.mark.parametrize(
    ("checkpoint", "field", "why", "fix"),
    [
        (
            {"keepEverySteps": 120},
            "spec.checkpoint.keepEverySteps",
            "storeIntervalSteps is 50: not each such step is written.",
            "Set a multiple of 50, or 0.",
        ),
        (
            {"keepEverySteps": 120, "storeIntervalSteps": 0},
            "spec.checkpoint.keepEverySteps",
            "storeIntervalSteps is 0: no such step is written.",
            "Set storeIntervalSteps, or 0 here.",
        ),
        (
            {"uploadMbPerS": 0.5},
            "spec.checkpoint.uploadMbPerS",
            "0.5 is so slow that the store would be taken for one that hangs.",
            "Set at least 1, or 0 for no bound.",
        ),
        (
            {"uploadCpus": 0.001},
            "spec.checkpoint.uploadCpus",
            "0.001 of a core writes next to nothing.",
            "Set at least 0.01, or 0 for no bound.",
        ),
    ],
)
def test_what_would_not_be_kept_or_would_not_get_on_is_refused(
    checkpoint: dict[str, Any], field: str, why: str, fix: str
) -> None:
    found = mistakes(job(checkpoint=checkpoint))[field]
    assert (found.why, found.fix) == (why, fix)


def test_bounds_of_uploads_are_taken() -> None:
    bounds = {"keepEverySteps": 100, "uploadMbPerS": 200, "uploadCpus": 0.25, "uploadIdle": True}
    taken = check(job(checkpoint=bounds)).spec.checkpoint
    assert taken.keep_every_steps == 100
    assert (taken.upload_mb_per_s, taken.upload_cpus, taken.upload_idle) == (200, 0.25, True)


@pytest.mark.parametrize(
    ("spec", "field", "said"),
    [
        ({"command": ["echo", "a\0b"]}, "spec.command[1]", "character 2 is U+0000 (NUL)"),
        ({"env": {"A": "\0"}}, "spec.env.A", "character 1 is U+0000"),
        ({"env": {"A\0": "b"}}, "spec.env", "character 2 is U+0000"),
        ({"workdir": "/a\0"}, "spec.workdir", "character 3 is U+0000"),
        ({"checkpoint": {"storeUrl": "file:///\0"}}, "spec.checkpoint.storeUrl", "U+0000"),
        ({"logRules": [{"pattern": "a\0"}]}, "spec.logRules[0].pattern", "U+0000"),
        ({"env": {"A": "x\ud800"}}, "spec.env.A", "U+D800 (half of a surrogate pair)"),
    ],
)
def test_text_that_no_program_can_be_given_is_a_mistake_beside_the_others(
    spec: dict[str, Any], field: str, said: str
) -> None:
    found = mistakes(job(**spec, nodes=0))
    assert said in found[field].why
    assert found[field].fix == "Remove it."
    assert "out of bounds" in found["spec.nodes"].why
    assert set(found) == {field, "spec.nodes"}


@pytest.mark.parametrize(
    "url",
    "relative/dir file://relative file:a file: http://[ file:///a?b file:///a#b file:///%00 "
    "fiel:///a gopher://host/a http://host/a memory://a s3: s3:///a s3://B/a s3://a s3://bck/a?b "
    "hdfs:///a hdfs://host hdfs://host:port/a hdfs://host,/a hdfs://host:1/a#b gs://".split(),
)
def test_a_store_that_there_is_not_is_refused(url: str) -> None:
    found = mistakes(job(checkpoint={"storeUrl": url}))["spec.checkpoint.storeUrl"]
    assert found.value == f'"{url}"'
    wrong = storeurl.amiss(url)
    assert (found.why, found.fix) == (f"this {wrong.what}", wrong.fix)


@pytest.mark.parametrize(
    ("url", "what", "fix"),
    [
        ("/data/ckpt", "is a path, and no URL", "Write file:///data/ckpt"),
        ("data/ckpt", "is no store that this Holdfast knows", storeurl.FIX),
        ("gopher://host/a", "is no store that this Holdfast knows", storeurl.FIX),
        ("file://data/ckpt", "names a host, 'data', and no folder", "three slashes"),
        ("file://", "names no absolute folder", "file:///and"),
        ("hdfs://nn:9870", "names no folder in HDFS", "Add one: hdfs://nn:9870/checkpoints"),
        ("webhdfs:///a", "names no NameNode", "hdfs://namenode:9870/folder"),
        ("hdfs://me@nn:9870/a", "has 'me@nn:9870' where its NameNode", "HADOOP_USER_NAME"),
        ("s3://b/x", "has 'b' where its bucket belongs", "3 to 63 small letters"),
        ("s3:///x", "names no bucket", "s3://bucket/folder"),
        ("gs://", "names no place", "gs://bucket/folder"),
        ("file:///a?b", "has a ? or a #", "Write %3F or %23"),
    ],
)
def test_what_is_wrong_with_a_url_is_said(url: str, what: str, fix: str) -> None:
    assert storeurl.place_of(url) is None
    wrong = storeurl.amiss(url)
    assert what in wrong.what
    assert fix in wrong.fix


@pytest.mark.parametrize("url", ["sftp://me:hush@host/a", "s3://key:hush@bucket/a", "a://b:hush@c"])
def test_a_password_in_a_url_is_refused_and_not_shown(url: str) -> None:
    found = mistakes(job(checkpoint={"storeUrl": url}))["spec.checkpoint.storeUrl"]
    assert "a password has no place in a URL" in found.why
    assert "hush" not in repr(found)


NETWORK = (
    "hdfs://host/a hdfs://host:9870/ webhdfs://nn-1:9870,nn-2:9870/a/b s3://bucket s3://bucket/a "
    "s3a://my.bucket-1/a gs://bucket/a sftp://me@host/a az://container/a"
)


@pytest.mark.parametrize(
    "url",
    ["", "file:///data/ckpt", "file:///data/with%20space", "file:/data", *NETWORK.split()],
)
def test_a_folder_or_a_server_is_a_store(url: str) -> None:
    assert check(job(checkpoint={"storeUrl": url})).spec.checkpoint.store_url == url
