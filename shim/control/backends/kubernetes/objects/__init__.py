"""The objects of a run: what they are called, what they say, how they are made and removed."""
