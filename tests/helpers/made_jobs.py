"""Jobs as the core knows them, of a plan and the nodes that have their places."""

from typing import Any

from holdfast.driver.core.events import Plan
from holdfast.driver.core.state.layout import of_plan
from holdfast.driver.core.state.model import Job, Phase
from holdfast.driver.core.state.versions import Version


def made_job(name: str, plan: Plan, *, places: tuple[str, ...] = (), **fields: Any) -> Job:
    """A job that runs, where `fields` do not say otherwise."""
    known = {"phase": Phase.RUNNING, "number": 1, "submitted_s": 0.0, "since_s": 0.0} | fields
    layout = of_plan(plan).with_places(places)
    return Job(
        name=name, versions=(Version(number=1, plan=plan, at_s=0.0),), layout=layout, **known
    )
