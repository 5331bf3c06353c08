"""The plugin's fixtures, also where it is not installed as a plugin."""

from __future__ import annotations

from shim.pytest_plugin import slurm, slurm_shape, submit

__all__ = ["slurm", "slurm_shape", "submit"]
