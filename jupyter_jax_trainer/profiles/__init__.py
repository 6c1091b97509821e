"""What is in the profiles of jobs: read in a process of its own, for a pod may write anything."""
