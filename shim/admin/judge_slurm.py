"""The verdict of a real Slurm on a script: its own ``sbatch --test-only`` is asked."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence

from shim.control.backends.slurm import programs
from shim.core.errors import ShimError
from shim.core.model.cluster import Cluster

_PATIENCE = 60.0  # seconds for its answer
_NAME = "sbatch: "


def ask(options: Sequence[str], words: Sequence[str], cluster: Cluster, text: str | None) -> tuple[int, list[str]]:
    """Exit code and lines (as after ``sbatch: ``) of a trial submission of ``words``: script, arguments. ``text``: the script's, if known.

    ShimError if the cluster could not be asked.
    """
    folder, conf = cluster.settings.get("bin", ""), cluster.settings.get("conf", "")
    path, _kind = programs.find("sbatch", folder, os.environ.get("PATH", ""))
    given = None if os.path.isfile(words[0]) else text  # a pipe was read by now
    environ = {**os.environ, "SLURM_CONF": conf} if conf else dict(os.environ)
    try:
        done = subprocess.run(
            [path, "--test-only", *options, words[0] if given is None else "/dev/stdin", *words[1:]],
            env=environ,
            input=given or "",
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="surrogateescape",
            timeout=_PATIENCE,
            check=False,
        )
    except OSError as error:
        raise ShimError(f"error: {path}: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise ShimError(f"error: cluster {cluster.name} did not answer within {_PATIENCE:.0f} s") from None
    lines = [line.removeprefix(_NAME) if line.startswith(_NAME) else "\0" + line for line in done.stdout.splitlines()]
    return done.returncode, lines
