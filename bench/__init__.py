"""Benchmarks against named peers, in the same run, on the same work: `holdfast bench NAME`.

Called from the command line only. Must not be imported by anything, nor hard-code a figure.
"""
