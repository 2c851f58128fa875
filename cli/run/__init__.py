"""`holdfast run`: a driver, a keeper and one job, for as long as one command runs.

Called by the command line. Another face of the same driver, keeper and executor, not another
engine: it starts them, submits a job through REST, shows the script's output, and takes all down.
"""
