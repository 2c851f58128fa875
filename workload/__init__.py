"""A GPT trained by tensor x pipeline x data parallelism: the real job that Holdfast is tried on.

Started as ranks by the executor, or by plain torchrun, like any user's script. Must not know about
the driver, and has no switch for faults: those are done from outside. `docs/workload.md` maps each
mechanism to its module and its proof.
"""
