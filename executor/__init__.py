"""The supervisor of one node's ranks: converges on the desired state that the driver sends.

Started by the keeper or the kubelet. Owns the warm launcher, the ranks, the checkpoint agent and
the diagnostics runner. Must not decide about recovery, nor act for an epoch older than it has seen.
"""
