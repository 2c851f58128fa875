"""The state as bytes: today's form, what a commit changed of it, and forms of earlier Holdfasts.

Called by the loop, the journal and the simulator. Pure, and no part of the core, which knows the
form of today alone. A form that changes has a new version, and a reader here of the one before.
"""
