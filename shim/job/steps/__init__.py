"""The side of a step that srun is: terminal, files, labels, exit lines."""
