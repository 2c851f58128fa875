"""How the ways to save are called in what the benchmark tells. Used by its script and its tests."""

OURS, COPY, TORCH, DCP, ASYNC = (
    "holdfast",
    "a warm copy",
    "torch.save",
    "dcp.save",
    "dcp.async_save",
)
BARE, LATE = "no save", "holdfast, overlapped"
FIRST = ("first", "second", "third", "fourth")
"""Saves of ours are told by themselves: a slot is new to them."""
