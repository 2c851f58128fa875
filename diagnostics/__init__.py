"""The tests that a node, or a group of nodes, runs to find out which part is bad.

`registry` has them by name: a new test is an entry there and a file in `probes`. `plan`, `verdict`
and `thresholds` are pure and used by the driver; the probes run under the executor. Must not run
longer than their time box, and must not decide what becomes of a node.
"""
