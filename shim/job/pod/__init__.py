"""What runs in a pod: the agent as its first process, the way to its leader, the relay, our commands."""
