"""Bursts: a node's network counters, each millisecond for some seconds. Bytes, files, and words."""
