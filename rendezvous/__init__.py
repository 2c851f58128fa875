"""How the ranks of an attempt find each other: stores for torch, and what they cost.

`install` is called in a rank before the user's script; `redis_store` may be used by any script.
Must not be needed: a rank without any of it meets as torch does by itself.
"""
