"""What a job, a step and a task see: SLURM_*, SKYPILOT_*, GPU variables, --export, file name patterns. Pure."""
