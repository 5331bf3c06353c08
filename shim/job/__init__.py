"""What runs inside a job, here or in a pod: wire, agents, steps. Standard library only, Python 3.9."""
