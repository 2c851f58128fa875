"""A node's kernel log and DCGM, told as conditions of its Node: where pods may read neither.

A process of its own, one a node, started by a DaemonSet (deploy/kubernetes/overlays/node-signals):
`python -m holdfast.daemon.signals`. Must not watch anything of the API server, decide what becomes
of a node, or take a fault back while the node stays up.
"""
