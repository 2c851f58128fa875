"""A seeded simulation of cluster and jobs in virtual time, with the driver's real decision core.

Run by the tests, and as `python -m holdfast.lab.simulator SEED`. Faults first, invariants after
every decision, then a quiet phase in which everything has to converge. Must not use a real clock.
"""
