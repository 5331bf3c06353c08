"""A node of a run: tasks started, fed, listened to, held to their memory, ended."""
