"""One scenario of chaos on Kubernetes, played whole on the control plane of the tests."""

import pytest
from waiting import eventually

from holdfast.lab.chaos.kubernetes.scenarios import SCENARIOS
from holdfast.lab.chaos.kubernetes.stage import Stage
from holdfast.lab.chaos.scenarios import chosen
from holdfast.lab.emulator.namespaces import Kind, best_kind
from holdfast.lab.kubernetes.plane import ControlPlane

pytestmark = [
    *(pytest.mark.kubernetes, pytest.mark.cluster, pytest.mark.torch, pytest.mark.slow),
    pytest.mark.timeout(400),
]


def test_a_driver_killed_in_a_recovery_costs_nothing_and_does_each_effect_once(
    plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> None:
    if best_kind()[0] is Kind.LOOPBACK:
        pytest.skip(f"no namespaces here: {best_kind()[1]}")
    (scenario,) = chosen(["driver-killed-restoring"], SCENARIOS)
    said: list[str] = []
    folder = tmp_path_factory.mktemp("chaos")  # short: paths of sockets are bounded
    with Stage(folder, steps=30, seed=1, say=said.append) as stage:
        stage.use(plane)
        score = stage.play(scenario)
    assert score.passed, (score, said)
    assert (score.innocent_evicted, score.loss_equal_bitwise) == (0, True)
    eventually(plane.ready, "it is left as it was found")
