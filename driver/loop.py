"""The driver loop: event -> decide -> journal -> effects -> their outcome is the next event."""
