"""What is known of a module that is run by its name, from its files alone, before it runs."""

import site
import sys
from pathlib import Path

import pytest

import holdfast
from holdfast.executor.launcher.importing import evict_shadowed
from holdfast.executor.launcher.scan import modules_of


def test_relative_imports_of_the_users_package_are_followed(tmp_path: Path) -> None:
    (tmp_path / "app" / "net").mkdir(parents=True)
    (tmp_path / "app" / "__init__.py").touch()
    (tmp_path / "app" / "train.py").write_text("from .net import layers\nfrom ... import never")
    (tmp_path / "app" / "net" / "layers.py").write_text("from .. import data")
    (tmp_path / "app" / "data.py").write_text("import html.parser")
    assert modules_of(module="app.train", workdir=str(tmp_path)) == ["html.parser"]


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the search path with a package that must not be imported to look into it."""
    package = tmp_path / "elsewhere" / "far_package"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("import html.parser\nraise SystemExit('imported')")
    (package / "train.py").write_text("import far_package.train, json\nfrom . import model")
    (package / "model.py").write_text("import wave")
    monkeypatch.syspath_prepend(package.parent)
    return package.parent


def test_a_module_on_the_search_path_is_looked_into_without_importing_it(
    tmp_path: Path, elsewhere: Path
) -> None:
    names = modules_of(module="far_package.train", workdir=str(tmp_path))
    assert sorted(names) == ["html.parser", "json", "wave"]
    assert modules_of(module="no_such.module", workdir=str(tmp_path)) == []


def test_of_an_installed_module_its_imports_are_named_and_never_itself(
    tmp_path: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site, "getsitepackages", lambda: [str(elsewhere)])
    names = modules_of(module="far_package.train", workdir=str(tmp_path))
    assert sorted(names) == ["far_package", "far_package.model", "html.parser", "json"]


def test_a_module_in_a_namespace_of_namespaces_is_left_to_the_rank(
    tmp_path: Path, elsewhere: Path
) -> None:
    (elsewhere / "outer" / "inner").mkdir(parents=True)
    (elsewhere / "outer" / "inner" / "train.py").write_text("import torch")
    assert modules_of(module="outer.inner.train", workdir=str(tmp_path)) == []


@pytest.mark.parametrize("ours", [True, False])
def test_holdfast_itself_in_a_folder_of_the_users_is_not_loaded_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ours: bool
) -> None:
    """As with PYTHONPATH=src: `telemetry.pause()` of another copy would be heard by nobody."""
    folder = Path(holdfast.__file__).parents[1] if ours else tmp_path
    (tmp_path / "holdfast").mkdir()
    (tmp_path / "holdfast" / "__init__.py").touch()
    loaded = {"holdfast": holdfast, "holdfast.kit": holdfast}
    monkeypatch.setattr(sys, "modules", {**sys.modules, **loaded})
    evict_shadowed([str(folder)], frozenset())
    assert (sys.modules.keys() >= loaded.keys()) is ours
