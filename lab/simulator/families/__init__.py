"""Families of scenarios: each draws its seeds its own way, to look at one thing that goes wrong.

`table` has them by name. What "mixed" draws is recorded (tests/core/outcomes.jsonl.xz), so what is
new belongs to a family of its own.
"""
