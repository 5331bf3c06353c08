"""How tests get a real Slurm: one command brings it up, one takes it down."""
