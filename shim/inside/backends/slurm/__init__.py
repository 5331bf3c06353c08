"""A real Slurm is not there inside a pod."""
