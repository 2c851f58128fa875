"""How much longer a job takes that is hurt again and again: a rank, a node, the store, in turn;
ours beside torchrun, with the same script.
"""
