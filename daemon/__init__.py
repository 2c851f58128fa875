"""The watcher of one node: samples to heartbeats, a process and a connection of its own.

Started by the keeper or the kubelet, beside the executor. Must not import torch, start or stop
ranks, or interpret what it sees: the driver's detectors do.
"""
