"""From a job's options to its objects in the cluster."""
