"""The index opened for writing: its file, its settings, its migrations."""

from __future__ import annotations

import os
import sqlite3

from shim.control.index.errors import IndexNewer, fault
from shim.control.index.reader import VERSION
from shim.control.index.store import Store
from shim.control.paths import ensure


def open_store(path: str) -> Store:
    """Opens the index for writing; creates or migrates it. Raises IndexFault (see errors.py)."""
    try:
        ensure(os.path.dirname(path))
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        connection = sqlite3.connect(path, timeout=10, isolation_level=None, check_same_thread=False)
    except (OSError, sqlite3.Error) as error:
        raise fault(path, error) from error
    try:
        found = connection.execute("PRAGMA user_version").fetchone()[0]
        if found > VERSION:
            raise IndexNewer(path, found, VERSION)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = ON")
        if found < VERSION:
            _migrate(connection)
    except sqlite3.Error as error:
        connection.close()
        raise fault(path, error) from error
    except BaseException:
        connection.close()
        raise
    return Store(path, connection)


def _migrate(connection: sqlite3.Connection) -> None:
    from shim.control.index.schema import migrate  # imports sqlite-utils, which is slow and seldom needed

    connection.execute("BEGIN IMMEDIATE")
    try:
        migrate(connection)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
