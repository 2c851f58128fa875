"""How long training stands still: one script under torchrun and under Holdfast, turn by turn.

Called by `bench.main`. Faults are done from outside, and progress is read from outside: `script`
leaves marks. Must not take a figure from what a system says of itself.
"""
