"""Faults done to an emulated cluster from outside, and scores of what followed.

Called by `holdfast chaos`, the demo and the benchmarks. An injector uses what a hostile world has:
signals, links, files; never an interface of the code under test. Must not announce a fault.
"""
