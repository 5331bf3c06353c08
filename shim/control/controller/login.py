"""What a fresh login of the user gives: the base of a job that does not take the submitter's environment (--export=NONE)."""

from __future__ import annotations

import pwd

from shim.core.model.job import Job

_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games"
_ROOT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def login_environment(job: Job) -> dict[str, str]:
    """From the password database; nobody's profile is run."""
    try:
        entry = pwd.getpwuid(job.uid)
        home, shell = entry.pw_dir, entry.pw_shell or "/bin/sh"
    except KeyError:
        home, shell = "/", "/bin/sh"
    return {
        "PATH": _PATH if job.uid else _ROOT_PATH,
        "HOME": home,
        "SHELL": shell,
        "USER": job.user,
        "LOGNAME": job.user,
        "MAIL": f"/var/mail/{job.user}",
    }
