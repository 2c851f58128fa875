"""What flows between nodes look like, over good links and bad ones: `… -m holdfast.bench.links`.

`record` trains a job on an emulated cluster, has one link be bad in several ways, and writes what
daemons would tell of the flows meanwhile. `judge` plays such traces into the detector. Measured on
an emulated cluster: links are pairs of veth, and what is slow is made so by tc.
"""
