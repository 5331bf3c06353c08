"""A user's name, and the groups of a user by theirs."""

from __future__ import annotations

import grp
import os
import pwd


def user_name(uid: int) -> str:
    """The user's name; the number of one whom nobody knows."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def names_of(uid: int) -> set[str]:
    """All groups that ``uid`` is in; none for a user or a group that nobody knows."""
    try:
        account = pwd.getpwuid(uid)
        ids = os.getgrouplist(account.pw_name, account.pw_gid)
    except (KeyError, OSError):
        return set()
    names = set()
    for gid in ids:
        try:
            names.add(grp.getgrgid(gid).gr_name)
        except (KeyError, OSError):
            continue
    return names
