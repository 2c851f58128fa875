"""What Prometheus is told by a driver. Never by rank or step; jobs that are over go.

`driver` is what the REST application has, `jobs` the figures of each job, `requests` counts those
of people. Names are listed in docs/metrics.md.
"""
