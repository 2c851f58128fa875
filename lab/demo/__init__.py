"""`holdfast demo`: a real training job on an emulated cluster loses a node and gets it back.

Called by the command line. Must not tell the driver anything that a user would not, and must not
state a figure that it did not measure in this run.
"""
