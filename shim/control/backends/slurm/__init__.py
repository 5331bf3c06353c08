"""A real Slurm behind the same commands: its programs are run as they were called, nothing is run here."""
