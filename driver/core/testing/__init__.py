"""Tests of nodes: why one is wanted, and what follows from its result."""
