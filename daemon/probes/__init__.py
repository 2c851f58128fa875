"""Are the neighbours there? One file for those who ask, one for those who answer."""
