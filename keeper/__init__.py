"""Keeps the nodes of a local cluster: starts each node's executor and daemon, and restarts them.

What a kubelet does, for `holdfast run` and for the emulator. Must not know about jobs or ranks.
"""
