"""A data centre on one Linux machine: the keeper, with nodes that are namespaces.

Started by the demo, chaos, benchmarks and tests (`python -m holdfast.lab.emulator.main`). A node
has its own network, processes, mounts, memory, disk, counters and kernel log; faults are done to
these from outside. Must not announce a fault to the code under test. Linux only.
See docs/emulator.md.
"""
