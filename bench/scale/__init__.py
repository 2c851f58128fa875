"""What the driver costs a node, as the cluster grows: deciding, committing, taking heartbeats in.

`decided` and `ingested` are scripts for a process of their own, which today's tree and an earlier
commit both run; `benchmark` runs them in turns.
"""
