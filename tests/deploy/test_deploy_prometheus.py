"""The alerts that are shipped, judged by Prometheus' own tool: each fires for what it is about."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

RULES = Path(__file__).parents[2] / "deploy" / "prometheus"
MODULE = "github.com/prometheus/prometheus/cmd/promtool@v0.316.0"
KEPT = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "holdfast" / "promtool"
BUILD_S = float(os.environ.get("HOLDFAST_TEST_PROMTOOL_S", "0"))
"""How long it may be built for, 0: not at all. It took 40 minutes of two cores, others beside."""


@pytest.fixture(scope="module")
def promtool() -> str:
    """It, as it is installed; else as it was built from its module once, else built now."""
    if found := shutil.which("promtool"):
        return found
    if (KEPT / "promtool").exists():
        return str(KEPT / "promtool")
    if not BUILD_S:
        pytest.skip(f"no promtool; to build it: GOBIN={KEPT} go install {MODULE}")
    if shutil.which("go") is None:
        pytest.skip("no promtool, and no Go to build it with")
    environment = os.environ | {"GOBIN": str(KEPT)}
    try:
        subprocess.run(["go", "install", MODULE], env=environment, check=True, timeout=BUILD_S)
    except subprocess.TimeoutExpired:
        pytest.skip(f"promtool was not built within {BUILD_S:.0f} s")
    return str(KEPT / "promtool")


def judged(*words: object) -> str:
    said = subprocess.run([*map(str, words)], capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stdout + said.stderr
    return said.stdout


def test_the_rules_are_rules(promtool: str) -> None:
    assert "10 rules found" in judged(promtool, "check", "rules", RULES / "alerts.yaml")


def test_what_a_prometheus_on_kubernetes_is_given_is_a_configuration(promtool: str) -> None:
    judged(promtool, "check", "config", "--syntax-only", RULES / "prometheus.yaml")


def test_each_alert_fires_for_what_it_is_about_and_for_nothing_less(promtool: str) -> None:
    judged(promtool, "test", "rules", RULES / "alerts_test.yaml")
