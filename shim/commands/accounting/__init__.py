"""The commands that ask Slurm's accounting database: here the configuration and the index answer."""
