"""The agents: one process per node of a run; the first is the leader."""
