"""A GPT trained by tensor x pipeline x data parallelism: the real job that Holdfast is tried on.

Started as ranks by the executor like any user's script. Must not know about the driver.
"""
