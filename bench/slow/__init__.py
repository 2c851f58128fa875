"""How soon a slow rank is told, and how often a healthy one: `python -m holdfast.bench.slow`.

`record` runs real ranks (gloo, DDP, one machine) with their hooks and rings, reads those as a
daemon does, and writes what each heartbeat told. `judge` plays such traces into the detector.
"""
