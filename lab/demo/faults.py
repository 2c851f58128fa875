"""The faults that the demo offers: the scenarios of chaos that need no bug in the user's script."""

from holdfast.lab.chaos.scenarios import SCENARIOS, Scenario

FAULTS: dict[str, Scenario] = {each.name: each for each in SCENARIOS if not each.buggy}
