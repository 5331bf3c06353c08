"""Slurm's value grammars: each module reads one kind of text and prints it, so that what is printed is read as the same value. Pure."""
