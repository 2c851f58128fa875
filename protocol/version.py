"""Versions that peers compare before they talk."""

PROTOCOL_VERSION = 2
"""Version of the messages between driver and nodes; a peer with another one is refused."""

API_VERSION = "holdfast.dev/v1alpha1"
"""`apiVersion` of a `TrainingJob`."""

FIELD_MANAGER = "holdfast-driver"
"""Who manages, by an API server's book, each field that a part of Holdfast writes there."""
