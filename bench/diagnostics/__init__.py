"""How often the tests of nodes find a fault that is there, and one that is not.

`faults` plants them, `exams` runs the probes as an executor does, `benchmark` counts. What they
print stands in `diagnostics.registry`.
"""
