"""The records of ``--json`` and ``--yaml``: each field once, written in the layout of Slurm 22.05 (v0.0.38) or in that of v0.0.43."""
