"""One handler for each event: from the cluster, executors, detectors, people, the clock."""
