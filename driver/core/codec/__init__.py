"""The state as bytes, whole or what changed, also of earlier Holdfasts."""
