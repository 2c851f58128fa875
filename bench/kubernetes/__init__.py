"""A gang of thousands beside a bare create of the same pods, on a real API server with fake nodes.

Called by `bench.main`. kwok says for the nodes that they are there; executors and daemons are
simulated, but speak with the driver as real ones do. Must not leave anything running.
"""
