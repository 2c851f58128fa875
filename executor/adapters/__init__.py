"""One file a technology of the host: processes, /proc, the launcher's socket, py-spy, cgroups."""
