"""Versions that peers compare before they talk."""

PROTOCOL_VERSION = 2
"""Version of the messages between driver and nodes; a peer with another one is refused."""

API_VERSION = "holdfast.dev/v1alpha1"
"""`apiVersion` of a `TrainingJob`."""
