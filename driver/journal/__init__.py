"""What is written down: drafted from events, committed by the loop, kept, and pruned.

Used by the loop, opened by `driver.main`. How it is stored is for `adapters` to know. Must not act.
"""
