"""Another user than the one who runs the tests: a process with a uid that nobody has. Only root can be one."""

from __future__ import annotations

import contextlib
import io
import os
import pwd
import traceback
from collections.abc import Callable

import pytest

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")


def free_uid(after: int = 61200) -> int:
    """A uid that no user of this machine has."""
    taken = {entry.pw_uid for entry in pwd.getpwall()}
    return next(uid for uid in range(after, after + 1000) if uid not in taken)


USER = free_uid()
MALLORY = free_uid(USER + 1)


def run_as(uid: int, work: Callable[[], object], gid: int | None = None) -> str:
    """Does ``work`` in a process of that user (``gid``: another group than its own); what it printed, on either stream."""
    answers, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        said = io.StringIO()
        try:
            os.setgroups([])
            os.setgid(uid if gid is None else gid)
            os.setuid(uid)
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                work()
        except BaseException:
            said.write(traceback.format_exc())
        finally:
            os.write(tell, said.getvalue().encode())
            os._exit(0)
    os.close(tell)
    with open(answers) as file:
        text = file.read()
    os.waitpid(pid, 0)
    return text
