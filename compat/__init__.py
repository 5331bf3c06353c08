"""The regression suite against real Slurm, and the clusters it needs. README.md beside this tells how to use it."""
