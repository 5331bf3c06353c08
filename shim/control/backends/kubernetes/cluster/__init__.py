"""The cluster as one controller sees it: nodes, what is used of them, what is watched, who holds the Lease."""
