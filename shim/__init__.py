"""Drop-in Slurm commands: an unchanged ``sbatch train.sh`` here, on Kubernetes or on a real Slurm."""

from __future__ import annotations

__version__ = "0.1.0"
SLURM_VERSION = (
    "22.05.8"  # the Slurm whose behaviour is answered for; `--version` prints it unless configured otherwise
)
