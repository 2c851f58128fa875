"""The attempt under way: what its ranks told, and from where it can start."""
