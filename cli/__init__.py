"""The `holdfast` command: the outermost layer, a face of the driver's REST interface.

Called by people. Must not hold logic that another folder could need.
"""
