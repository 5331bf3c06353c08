"""The index: every job of this user on this host in one SQLite file. Written by the controller, read by everyone.

WAL with synchronous NORMAL: a transaction that was committed survives ``kill -9`` of any process; a power cut may take
the last ones with it, never the file's consistency.
"""
