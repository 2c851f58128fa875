"""How well the driver finds out what is wrong, and what it does meanwhile, in simulated cases.

`played` is a script for a process of its own, which plays seeds of one case with the driver that is
on its path, or by the oracle; `benchmark` runs it, `rows` adds up, `goals` says what is aimed at.
All of it is virtual time: no figure here was measured on a cluster.
"""
