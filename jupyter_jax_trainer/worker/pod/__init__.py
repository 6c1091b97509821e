"""What a worker does in a pod, and nowhere else."""
