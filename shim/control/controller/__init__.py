"""The controller: one process per user and host that moves jobs through their lives. It can be killed at any instruction."""
