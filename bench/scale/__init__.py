"""What the driver costs a node, as the cluster grows: deciding, committing, taking heartbeats in.

`decided`, `ingested`, `faulted` and `connected` are scripts for a process of their own, which
today's tree and an earlier commit both run; `benchmark` runs them in turns. `connected` alone has
sockets between driver and nodes.
"""
