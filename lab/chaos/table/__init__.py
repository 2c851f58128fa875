"""Rows of scenarios by what they do it to. Read by `chaos.scenarios` alone."""
