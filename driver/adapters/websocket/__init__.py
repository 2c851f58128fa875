"""The nodes' connections, of executors and daemons: `sessions` is the port `Nodes`."""
