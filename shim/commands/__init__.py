"""One small module per Slurm command: parse, ask, render."""
