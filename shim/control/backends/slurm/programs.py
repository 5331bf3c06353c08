"""Where the programs of a real Slurm are: on PATH past our own launchers, or in the folder that the configuration names.

Hot path: nothing is run to find out, and one small file is looked into.
"""

from __future__ import annotations

import os

from shim.core.errors import ShimError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

# In every launcher of ours, in a checkout, installed or written by ``launchers``: symlinks lead to it, copies have it.
MARK = b"shim.main.launch()"
_CONFS = (
    "/etc/slurm/slurm.conf",
    "/etc/slurm-llnl/slurm.conf",
    "/usr/local/etc/slurm.conf",
    "/usr/local/etc/slurm/slurm.conf",
    "/run/slurm/conf/slurm.conf",  # a machine that gets its configuration from the controller ("configless")
)
_CLEARING = (b"-i", b"-", b"--ignore-environment", b"sudo", b"su", b"runuser")  # of env, or instead of it
# Where it is although PATH is as short as cron's. What nobody configured must not then run on a login node itself.
_USUAL = "/usr/bin:/usr/local/bin:/opt/slurm/bin:/opt/slurm/current/bin"
OURS, SCRIPT, BINARY = "ours", "script", "binary"


def kind_of(path: str) -> str | None:
    """Ours, a script (which may call us back), a binary; None for what is no program."""
    if not os.access(path, os.X_OK):
        return None
    try:
        with open(path, "rb") as file:
            start = file.read(8192)
    except IsADirectoryError:
        return None
    except OSError:
        return BINARY  # it may be run but not read: ours can be read
    if MARK in start:
        return OURS
    if not start.startswith(b"#!"):
        return BINARY
    return OURS if _forgetful(start) else SCRIPT


def _forgetful(text: bytes) -> bool:
    """Whether the script calls a launcher of ours without the caller's environment: what is passed on to it would come back."""
    words = text.replace(b'"', b" ").replace(b"'", b" ").split()
    return any(word in _CLEARING for word in words) and any(
        word.startswith(b"/") and kind_of(os.fsdecode(word)) == OURS for word in words[1:]
    )


def on_path(program: str, path: str, tried: Collection[str] = ()) -> tuple[str, str] | None:
    """The first program of that name that is not ours and not among ``tried``, and its kind. The usual folders come last."""
    usual = () if os.environ.get("SHIM_NO_SYSTEM_CONFIG") else _USUAL.split(":")
    for folder in (*path.split(":"), *usual):
        found = f"{folder or '.'}/{program}"
        if found in tried:
            continue
        kind = kind_of(found)
        if kind is not None and kind != OURS:
            return found, kind
    return None


def find(program: str, folder: str, path: str, tried: Collection[str] = ()) -> tuple[str, str]:
    """The real program and its kind: in ``folder`` if that is configured, else on ``path``. ShimError if there is none."""
    if folder:
        found = f"{folder}/{program}"
        kind = kind_of(found)
        if kind is None:
            raise ShimError(
                f"error: no real {program}: {found} is not there or cannot be run (bin in the configuration)"
            )
        if kind == OURS or found in tried:
            raise ShimError(f"error: no real {program}: {found} leads back to this one (bin in the configuration)")
        return found, kind
    seen = on_path(program, path, tried)
    if seen is None:
        why = f"{sorted(tried)[-1]} leads back to this one" if tried else "PATH has no other than this one"
        raise ShimError(f"error: no real {program}: {why}; bin in the configuration names the folder of the real ones")
    return seen


def confs(environ: Mapping[str, str], conf: str = "") -> tuple[str, ...]:
    """Where a real Slurm's slurm.conf may be, most likely first. ``conf``: the one that is configured."""
    named = conf or environ.get("SLURM_CONF", "")
    return (named,) if named else _CONFS


def cluster_name(conf: str) -> str:
    """What the real Slurm calls itself, from its slurm.conf; "" where that cannot be read or does not say."""
    for path in confs(os.environ, conf):
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                for line in file:
                    word, _, value = line.partition("=")
                    if word.strip().lower() == "clustername" and value.split():
                        return value.split()[0]
        except OSError:
            continue
        return ""
    return ""


def implied(environ: Mapping[str, str]) -> str:
    """The folder of a real Slurm that this machine is set up to use although nothing is configured here; "" for none.

    A real sbatch on PATH is not enough, some machines have the clients and no cluster: there must be a slurm.conf too, or a
    variable that says where to get it. SHIM_NO_SYSTEM_CONFIG: files and folders of the system do not count.
    """
    found = on_path("sbatch", environ.get("PATH", ""))
    if found is None:
        return ""
    folder = os.path.dirname(found[0])
    if environ.get("SLURM_CONF") or environ.get("SLURM_CONF_SERVER"):
        return folder
    if environ.get("SHIM_NO_SYSTEM_CONFIG"):
        return ""
    beside = os.path.dirname(os.path.dirname(os.path.realpath(found[0])))
    for conf in (*_CONFS, f"{beside}/etc/slurm.conf", f"{beside}/etc/slurm/slurm.conf"):
        if os.path.exists(conf):
            return folder
    return ""
