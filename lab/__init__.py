"""What stands in for a data centre: emulated nodes, faults from outside, simulated clusters.

Called by the demo, the chaos runner and the tests. Must not be imported by the product, and must
not tell the code under test which fault it made.
"""
