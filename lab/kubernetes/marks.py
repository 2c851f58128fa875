"""The label of what a laboratory makes in a cluster, by which it finds and removes its own again.

Used by `given`, by whatever makes objects, and by the emulated nodes. The value is a run's name.
"""

RUN = "lab.holdfast.dev/run"
