"""Which node gets which place: allocation, moves, evictions."""
