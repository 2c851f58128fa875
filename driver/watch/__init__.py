"""Detectors: heartbeats in, findings out. Pure and streaming; what they know can be lost."""
