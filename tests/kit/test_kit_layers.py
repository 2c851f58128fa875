"""The table of who may import whom is held: a line across it, planted in a copy, is reported."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLANTS = [
    ("daemon.loop", "holdfast.checkpoint.slots"),
    ("daemon.loop", "holdfast.diagnostics"),
    ("keeper.host", "holdfast.telemetry.ring"),
    ("driver.loop", "holdfast.telemetry.ring"),
    ("driver.loop", "holdfast.diagnostics.runner"),
    ("driver.loop", "holdfast.checkpoint.manifest"),
    ("driver.core.decide", "holdfast.kit.files"),
    ("driver.core.decide", "holdfast.driver.loop"),
    ("driver.core.decide", "time"),
    ("executor.core.fold", "holdfast.executor.ranks"),
    ("executor.core.fold", "asyncio"),
    ("executor.loop", "holdfast.daemon.settings"),
    ("workload.train", "holdfast.checkpoint.slots"),
    ("diagnostics.verdict", "os"),
    ("diagnostics.runner", "holdfast.checkpoint.slots"),
    ("checkpoint.retention", "torch"),
    ("driver.people.spec_to_plan", "holdfast.lab.cluster"),
    ("cli.jobs", "holdfast.lab.cluster"),
    ("lab.cluster", "holdfast.cli.find"),
    ("bench.restart.guarded", "holdfast.cli.find"),
    ("lab.simulator.world", "holdfast.lab.simulator.training_run"),
    ("driver.loop", "kubernetes"),
    ("driver.loop", "holdfast.kubeapi.paths"),
    ("daemon.signals.node", "holdfast.kubeapi.client"),
    ("kubeapi.paths", "holdfast.protocol.version"),
    ("kit.files", "aiohttp"),
]


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package's Python, in a folder that can be searched for imports."""
    copy = tmp_path / "holdfast"
    for source in (ROOT / "src" / "holdfast").iterdir():
        if source.is_dir() and source.name != "__pycache__":
            shutil.copytree(source, copy / source.name, ignore=_all_but_python)
    shutil.copy(ROOT / "src" / "holdfast" / "__init__.py", copy)
    return copy


def _all_but_python(folder: str, names: list[str]) -> list[str]:
    kept = {name for name in names if name.endswith(".py") or Path(folder, name).is_dir()}
    return [name for name in names if name not in kept or name == "__pycache__"]


def lint(package: Path) -> subprocess.CompletedProcess[str]:
    """Check a copy against the contracts of this tree."""
    program = "from importlinter.cli import lint_imports_command as lint; lint()"
    options = ["--config", str(ROOT / "pyproject.toml"), "--no-cache", "--no-logo"]
    return subprocess.run(
        [sys.executable, "-c", program, *options],
        cwd=package.parent,
        env=os.environ | {"PYTHONPATH": str(package.parent), "COLUMNS": "300"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_tree_as_it_stands_keeps_every_contract(package: Path) -> None:
    ended = lint(package)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_each_import_across_the_table_is_reported(package: Path) -> None:
    for importer, imported in PLANTS:
        target = package / (importer.replace(".", "/") + ".py")
        target.write_text(target.read_text() + f"\nimport {imported}\n")
    ended = lint(package)
    said = " ".join(ended.stdout.split())
    missed = [plant for plant in PLANTS if f"holdfast.{plant[0]} -> {plant[1]} (" not in said]
    assert ended.returncode == 1, ended.stderr
    assert not missed, said


def test_a_folder_that_no_row_names_is_reported(package: Path) -> None:
    (package / "stray").mkdir()
    (package / "stray" / "__init__.py").touch()
    ended = lint(package)
    assert ended.returncode == 1
    assert "holdfast.stray" in ended.stdout
