"""What Holdfast's processes say to each other: messages, job spec, faults, topology, environment.

Called by every process. Pure: data and functions of data; must not do I/O, read a clock, or import
anything of Holdfast but `kit`.
"""
