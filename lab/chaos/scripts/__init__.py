"""What users' scripts of the scenarios look like, bugs among them. Run as ranks, never imported."""

BUGGY = "holdfast.lab.chaos.scripts.buggy"
"""Its bugs are armed from outside, by files."""
