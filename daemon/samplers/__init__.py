"""One file a source: rings, processes, NICs, logs, host pressure. Each reads, none judges."""
