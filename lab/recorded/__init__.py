"""One story of one job, recorded: what each operation of the REST interface answers in it.

`python -m holdfast.lab.recorded` plays it and writes the examples of the interface's description
and of docs/api.md. The core, the detectors, the journal and the REST application are the real ones;
nodes and time are scripted. A test plays it anew and compares. Must not use a real clock.
"""
