"""Small tools without a word of the domain: clocks, ids, retry, files, logging set-up.

Called by every other folder. Must not import any of them, and must not know what a job is.
"""
