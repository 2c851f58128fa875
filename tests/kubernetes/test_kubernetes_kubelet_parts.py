"""What an emulated kubelet reckons with: environment, status, backoff, quantities. Pure."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.lab.emulator.kubelet import (
    container,
    nodeobject,
    options,
    podspec,
    podstatus,
    volumes,
)
from holdfast.lab.emulator.kubelet.images import Images
from holdfast.lab.emulator.kubelet.knobs import Knobs, KnobsOf, turn
from holdfast.lab.emulator.kubelet.logs import start_of_last
from holdfast.lab.emulator.kubelet.nodeobject import Shape
from holdfast.lab.emulator.kubelet.orders import Life, Phase
from holdfast.lab.emulator.kubelet.podspec import BadReference, Here, Values
from holdfast.lab.emulator.kubelet.podstatus import Seen, Waiting
from holdfast.lab.emulator.kubelet.quantities import whole
from holdfast.lab.emulator.kubelet.restarts import LONGEST_S, Restarts
from holdfast.lab.emulator.kubelet.times import micro_stamp, seconds, stamp

HERE = Here("198.18.1.1")
META = {"name": "one", "namespace": "ns", "uid": "u-1", "labels": {"app": "x"}, "generation": 2}


def pod(*containers, status=None, **spec):
    listed = [{"name": "main", "image": "busybox", **one} for one in containers or ({},)]
    return {
        "metadata": META,
        "spec": {"containers": listed, "nodeName": "node-1", **spec},
        "status": status or {},
    }


def life(phase=Phase.RUNNING, *, code=0, attempt=0, ended_s=0.0):
    return Life(
        uid="u-1",
        container="main",
        attempt=attempt,
        phase=phase,
        started_at_s=0.0,
        finished_at_s=ended_s,
        exit_code=code,
        reason="Error" if code else "Completed",
    )


def told(one, seen, **more):
    return podstatus.status(
        one, {"main": seen}, address="198.18.1.1", now_s=100.0, started_at=stamp(50.0), **more
    )


@pytest.mark.parametrize(
    ("quantity", "number"),
    [("500m", 1), ("2", 2), ("64Mi", 64 << 20), ("1Gi", 1 << 30), ("1k", 1000), (3, 3), ("0", 0)],
)
def test_quantities_are_whole_units_rounded_up(quantity, number):
    assert whole(quantity) == number


def test_what_is_no_quantity_is_refused():
    with pytest.raises(ValueError, match="'2 GB' is no quantity"):
        whole("2 GB")


@given(st.floats(0, 4e9))
def test_times_come_back_as_they_were_written(at_s):
    assert seconds(stamp(at_s)) == int(at_s)
    assert abs(seconds(micro_stamp(at_s)) - at_s) < 1e-5


def test_variables_are_expanded_as_kubernetes_does():
    known = {"A": "1", "A.B-C": "2"}
    assert podspec.expand("$(A) $(A.B-C) $(NO) $$(A) $A $", known) == "1 2 $(NO) $(A) $A $"


@given(st.text())
def test_expanding_never_fails_and_leaves_text_without_dollars(text):
    assert podspec.expand(text.replace("$", ""), {"A": "1"}) == text.replace("$", "")


def test_the_environment_is_read_in_its_order_and_from_everywhere():
    resources = {"limits": {"memory": "64Mi", "nvidia.com/gpu": "4"}}
    variables = [
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "APP", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
        {
            "name": "ROOM",
            "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}},
        },
        {"name": "WORD", "valueFrom": {"secretKeyRef": {"name": "s", "key": "w"}}},
        {
            "name": "NONE",
            "valueFrom": {"configMapKeyRef": {"name": "no", "key": "k", "optional": True}},
        },
        {"name": "BOTH", "value": "$(NODE)/$(WORD)"},
    ]
    container = {
        "env": variables,
        "envFrom": [{"configMapRef": {"name": "c"}, "prefix": "P_"}],
        "resources": resources,
    }
    one = pod(container)
    assert podspec.references(one) == {
        ("ConfigMap", "c"): True,
        ("Secret", "s"): True,
        ("ConfigMap", "no"): False,
    }
    values = Values({("Secret", "s"): {"w": b"secret"}, ("ConfigMap", "c"): {"x": b"y"}})
    assert podspec.environment(one, one["spec"]["containers"][0], HERE, values) == {
        "P_x": "y",
        "NODE": "node-1",
        "IP": "198.18.1.1",
        "APP": "x",
        "ROOM": "64",
        "WORD": "secret",
        "BOTH": "node-1/secret",
    }


def test_what_a_pod_refers_to_and_is_not_there_is_named():
    variable = {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}
    one = pod({"env": [variable]})
    with pytest.raises(BadReference, match="ConfigMap c has no key k"):
        podspec.environment(one, one["spec"]["containers"][0], HERE, Values({}))


def test_what_is_not_honoured_is_refused_in_sentences():
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "c"}}
    container = {"lifecycle": {"preStop": {}}, "livenessProbe": {"grpc": {"port": 1}}}
    said = podspec.refusals(pod(container, volumes=[volume], initContainers=[{"name": "i"}]))
    assert [sentence.partition(":")[0] for sentence in said] == [
        "initContainers",
        "volumes",
        "main",
        "main",
    ]
    assert podspec.refusals(pod()) == []
    refused = told(pod(), Seen(None, Waiting()), failure=("Refused", " ".join(said)))
    assert (refused["phase"], refused["reason"]) == ("Failed", "Refused")
    assert "persistentVolumeClaim" in refused["message"]


@given(
    before=st.sampled_from(["Pending", "Running", "Succeeded", "Failed"]),
    phase=st.sampled_from(list(Phase)),
    code=st.integers(0, 255),
    waits=st.booleans(),
)
def test_a_terminal_phase_never_goes_back(before, phase, code, waits):
    seen = Seen(life(phase, code=code), Waiting("CrashLoopBackOff") if waits else None)
    now = told(pod(status={"phase": before}), seen)["phase"]
    assert (
        now == before if before in podstatus.TERMINAL else now in ("Running", "Succeeded", "Failed")
    )
    ready = [item["status"] for item in told(pod(), seen)["conditions"] if item["type"] == "Ready"]
    assert ready == ["False"], "nobody said that it is ready"


def test_a_status_keeps_its_times_until_there_is_a_change():
    first = told(pod(), Seen(life(), None, ready=True, started=True))
    again = podstatus.status(
        pod(status=first),
        {"main": Seen(life(), None, ready=True, started=True)},
        address="198.18.1.1",
        now_s=200.0,
        started_at=stamp(150.0),
    )
    assert again == first
    assert first["startTime"] == stamp(50.0)


def test_the_life_before_is_told_after_a_restart():
    ended = life(Phase.EXITED, code=7, ended_s=9.0)
    status = told(pod(), Seen(life(attempt=1), None, previous=ended, ready=True))
    container = status["containerStatuses"][0]
    assert container["restartCount"] == 1
    assert container["lastState"]["terminated"]["exitCode"] == 7
    assert "running" in container["state"]


@pytest.mark.parametrize(
    ("policy", "code", "final"),
    [("Always", 0, False), ("OnFailure", 0, True), ("OnFailure", 1, False), ("Never", 1, True)],
)
def test_the_restart_policy_says_whether_an_end_is_final(policy, code, final):
    assert podstatus.exit_is_final(policy, life(Phase.EXITED, code=code)) is final


def test_the_first_restart_is_at_once_and_each_next_waits_twice_as_long():
    restarts, waits = Restarts(10.0), []
    for attempt in range(8):
        ended = life(Phase.EXITED, code=1, attempt=attempt, ended_s=100.0)
        waits.append(restarts.wait_s(ended, 100.0))
        restarts.restarted(ended)
    assert waits == [0.0, 10.0, 20.0, 40.0, 80.0, 160.0, LONGEST_S, LONGEST_S]
    steady = life(Phase.EXITED, code=1, attempt=8, ended_s=900.0)
    assert restarts.wait_s(steady, 900.0) == 0.0, "it ran for long"


def test_images_are_known_by_name_and_may_have_an_entry_point():
    images = Images(["busybox", "tool:*=python -m tool --all"])
    found = images.find("tool:1")
    assert found is not None
    assert found.entrypoint == ("python", "-m", "tool", "--all")
    assert images.find("busybox") is not None
    assert images.find("busybox2") is None
    one = {"name": "main", "args": ["$(A)"]}
    assert podspec.argv(one, found.entrypoint, {"A": "b"}) == ["python", "-m", "tool", "--all", "b"]
    assert podspec.argv({"command": ["x"]}, found.entrypoint, {}) == ["x"]


def test_a_node_tells_a_change_and_keeps_the_time_of_the_last():
    def status(seen, now_s, **more):
        return nodeobject.status(
            seen, address="198.18.1.1", port=1, shape=Shape(), now_s=now_s, **more
        )

    first = status({}, 10.0)
    again = status(first, 20.0)
    assert not nodeobject.differs(first, again), "a heartbeat alone is no news"
    assert again["conditions"][-1]["lastTransitionTime"] == stamp(10.0)
    unknown = {**first, "conditions": [{**one, "status": "Unknown"} for one in first["conditions"]]}
    assert nodeobject.differs(unknown, again)
    broken = status(first, 20.0, ready=(False, "the runtime is silent"))
    assert nodeobject.differs(first, broken)
    assert broken["conditions"][-1]["lastTransitionTime"] == stamp(20.0)


def test_volumes_lie_in_the_pods_own_folder_or_on_the_machine():
    one = pod(volumes=[{"name": "a", "emptyDir": {}}, {"name": "b", "hostPath": {"path": "/data"}}])
    assert volumes.places(one, Path("/s")) == {"a": Path("/s/pods/u-1/a"), "b": Path("/data")}


def test_knobs_are_as_they_were_turned_last(tmp_path):
    knobs = KnobsOf(tmp_path)
    assert knobs.now() == Knobs()
    turn(tmp_path, Knobs(frozen=True, slow_s=1.5))
    assert knobs.now() == Knobs(frozen=True, slow_s=1.5)
    turn(tmp_path, Knobs())
    assert knobs.now() == Knobs()


@given(st.lists(st.sampled_from([b"a\n", b"bb\n", b"\n"])), st.integers(0, 9))
def test_the_last_lines_of_a_log_are_whole(lines, wanted):
    content = b"".join(lines)
    last = content[start_of_last(content, wanted) :]
    assert last == b"".join(lines[len(lines) - min(wanted, len(lines)) :])


def test_a_folder_too_deep_for_sockets_is_refused_with_the_limit(tmp_path, capsys):
    words = ["--state", str(tmp_path / ("d" * 100)), "--kubeconfig-dir", str(tmp_path)]
    with pytest.raises(SystemExit):
        options.read(words)
    assert "Use a shorter folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("said", "known"),
    [
        ("pid 42\n", (42, "")),
        ("pid 42\nwhy cannot be run: No such file\n", (42, "cannot be run: No such file")),
        ("why cannot be run: No such file\npid 42\n", (42, "cannot be run: No such file")),
        ("why no namespaces\n", (0, "no namespaces")),
        ("", (0, "")),
    ],
)
def test_an_init_that_fails_may_say_so_before_its_pid_is_told(said, known):
    assert container.told(said) == known
