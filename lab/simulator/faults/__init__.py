"""What goes wrong, done to the world, a file for each to whom; the driver is never told of it.

`table` has them by the names that scenarios use.
"""
