"""A node's spans: read from its ranks' rings, thinned, put on the driver's clock, and kept."""
