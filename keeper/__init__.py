"""Keeps the nodes of a local cluster: what a kubelet does for pods, on this machine.

Started by `holdfast run`, the demo and the emulator. A *host* is the init of one node, the parent
of its executor and daemon; the *keeper* starts the hosts, reads their leases, serves the driver.
Must not know what a job does, nor decide about it. Linux only.
"""
