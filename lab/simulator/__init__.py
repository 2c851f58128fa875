"""A seeded simulation of cluster and jobs in virtual time, with the driver's real decision core.

Run by the tests, and as `python -m holdfast.lab.simulator SEED`. Faults first, rules after every
decision and bounds every second, then a quiet phase in which everything has to converge. Must not
use a real clock. `world` is what is, `driver` the core in its loop; `families` draw what goes
wrong, `faults` do it, `rules` say what may not follow. Who may import whom is in pyproject.toml.
"""
