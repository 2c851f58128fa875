"""One module a migration, in order of `down_revision`."""
