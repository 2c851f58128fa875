"""Real stores for checkpoints on this machine: an HDFS and an S3 server, for tests and trials.

Built once (`build`), started for as long as a `with` (`hdfs`, `s3`). Each has ports, processes and
a folder of its own, of which nothing is left however the process that made it ends.
"""
