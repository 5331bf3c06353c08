"""The controller: the one process per user and host that moves jobs; the only writer of the index."""
