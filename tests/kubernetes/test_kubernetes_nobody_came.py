"""A job whose pods are bound and never run, as of an image that is not there, and one behind it.

A driver on a real API server; its nodes have no machines, so nobody ever comes.
"""

from pathlib import Path

import pytest
from operated import operated

from holdfast.lab.kubernetes.plane import ControlPlane

pytestmark = pytest.mark.kubernetes


def test_a_job_of_which_nobody_comes_leaves_its_nodes_to_the_next(
    crd: ControlPlane, tmp_path: Path
) -> None:
    with operated(crd, tmp_path, "--connect-s", "15", name="nobody", nodes=2) as driven:
        driven.apply("older", nodes=2)
        driven.bound("older", 2)
        driven.apply("younger", nodes=2)
        driven.bound("younger", 2)
        said = "none of its executors came within 15 s"
        driven.until(
            "older", lambda status: said in status.get("message", ""), "it says why it waits"
        )
        assert driven.status("older")["restarts"] == 0
        for job in ("older", "younger"):
            driven.clear(job)
