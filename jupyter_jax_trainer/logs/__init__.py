"""Read the logs of a job: merged, indexed, paged and searched."""
