"""Whether a cluster has what jobs need."""
