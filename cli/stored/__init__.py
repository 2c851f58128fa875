"""`holdfast checkpoint`: what lies in a store, without a driver. Its command is in `command`."""
