"""The index, as commands inside a pod read it."""
