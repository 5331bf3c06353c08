"""--export: which of the user's variables reach a job or a step."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from shim.core.model.job import Job

_NOTHING = ("NONE", "NIL")
_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games"
_ROOT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def login_environment(job: Job) -> dict[str, str]:
    """What a fresh login of the user gives, from the password database; nobody's profile is run."""
    import pwd

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


def apply_export(
    environment: Mapping[str, str], export: str | None, login: Mapping[str, str], get_user_env: bool = False
) -> dict[str, str]:
    """The user's part of a batch script's environment by sbatch's ``--export``.

    ``environment``: sbatch's own; ``login``: what a fresh login of the user gives (PATH, HOME, SHELL, USER, LOGNAME, MAIL).
    None and ``ALL``: everything. ``ALL,A=1``: everything and A. Any other text: SLURM_* and SHIM_* of the submitter, the variables it
    names, and the login's. With a text (but ``ALL``) SLURM_EXPORT_ENV and SLURM_GET_USER_ENV tell the job's own srun.
    """
    if export is None or export.upper() == "ALL":
        kept = dict(environment)
        return {**login, **kept, "SLURM_GET_USER_ENV": "1"} if get_user_env else kept
    words = _words(export)
    if any(word.upper() == "ALL" for word in words):
        kept = {**login, **environment}
    else:
        kept = {**login, **_always(environment)}
    kept.update(_named(environment, words))
    kept["SLURM_EXPORT_ENV"] = export
    kept["SLURM_GET_USER_ENV"] = "1"
    return kept


def step_export(environment: Mapping[str, str], export: str | None) -> dict[str, str]:
    """What srun passes on to tasks: all, or SLURM_*, SHIM_* and the variables named; no login variables, so perhaps no PATH."""
    if export is None or export.upper() == "ALL":
        return dict(environment)
    words = _words(export)
    everything = any(word.upper() == "ALL" for word in words)
    kept = dict(environment) if everything else _always(environment)
    kept.update(_named(environment, words))
    return kept


def named(environment: Mapping[str, str], export: str) -> dict[str, str]:
    """The variables that a ``--export`` text names, with their values."""
    return _named(environment, _words(export))


def completed(user: Mapping[str, str], variables: Mapping[str, str]) -> dict[str, str]:
    """The environment of a script: the user's variables under Slurm's. A job without TMPDIR has /tmp."""
    return {"TMPDIR": "/tmp", **user, **variables}


def prepend_path(environment: Mapping[str, str], folder: str) -> dict[str, str]:
    """The environment with ``folder`` first on PATH, and only there."""
    if not folder:
        return dict(environment)
    others = [part for part in environment.get("PATH", "").split(":") if part and part != folder]
    return {**environment, "PATH": ":".join([folder, *others])}


def _always(environment: Mapping[str, str]) -> dict[str, str]:
    """SLURM_*, and SHIM_*, which are to us what SLURM_CONF is to Slurm: the way to the cluster."""
    return {name: value for name, value in environment.items() if name.startswith(("SLURM_", "SHIM_"))}


def _named(environment: Mapping[str, str], words: list[str]) -> dict[str, str]:
    """``NAME=value`` as it stands, ``NAME`` with the submitter's value, if it has one."""
    named = {}
    for word in words:
        name, equals, value = word.partition("=")
        if equals:
            named[name] = value
        elif name.upper() not in (*_NOTHING, "ALL") and name in environment:
            named[name] = environment[name]
    return named


def unclosed(text: str) -> str:
    """The item of ``--export=text`` whose quote is never closed; "" if there is none."""
    return _split(text)[1]


def _words(text: str) -> list[str]:
    """The items of a list with commas. One whose quote is never closed Slurm complains of, and leaves out."""
    return [word for word in _split(text)[0] if word]


def _split(text: str) -> tuple[list[str], str]:
    """The items of a list with commas, and the one whose quote is never closed, if any.

    Quotes keep a comma inside a value and stay part of it.
    """
    words = [""]
    quote = ""
    for char in text:
        if char == "," and not quote:
            words.append("")
            continue
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        words[-1] += char
    return (words[:-1], words[-1]) if quote else (words, "")
