"""A node's network counters each millisecond, for some seconds, by a process of their own."""
