"""Slurm's command lines: the tables of all options, their grammar, and what becomes of each option."""
