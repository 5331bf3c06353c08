"""This machine as a cluster of virtual nodes: agents are processes, forked from a warm server."""
