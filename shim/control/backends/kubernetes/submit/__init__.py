"""What happens at submission: checks, copies of working directories, ids, acceptance."""
