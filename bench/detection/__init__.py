"""How soon a rank that holds a job up is named, and acted on: `holdfast bench detection`.

Called by `bench.main`. The processes and the marks are those of `bench.restart`.
"""
