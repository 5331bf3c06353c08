"""SKYPILOT_* for the batch jobs of a real Slurm (``skypilot_env = true``).

What the variables say is known only where the job runs. So the job brings code along that runs before the script's first
command, and leaves no other trace in what the script sees, prints or returns:

* bash: the file is named in BASH_ENV, which bash reads first; the file takes BASH_ENV out again (or the user's own takes its
  place). The script is not touched.
* sh, dash, ksh, and --wrap: the script that is submitted has the file's name in front of its first command, in the same
  line, so that lines keep their numbers.
* anything else (python …): not in the batch step; steps get them all the same where the variables were set.

Steps inherit the variables. The rank of a task's node comes from a task prolog (SLURM_TASK_PROLOG, which srun has always
read), and only where the batch step has seen that the file is there: a missing prolog would end the task.
"""

from __future__ import annotations

import os
import time

from shim.control import command_line, paths
from shim.control.backends.slurm import programs
from shim.core import script
from shim.core.errors import ShimError
from shim.core.options import value_parsing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from shim.control.backends.slurm.call import Call
    from shim.core.routing import ClusterRef

_SHELLS = ("sh", "dash", "ash", "ksh", "mksh")
# Sourced by the batch script's shell: sh without arrays or locals, quiet, and safe under -e and -u.
_BATCH = """\
# SKYPILOT_* for the batch step of a Slurm job. Written by shim, read before the script's first command.
if [ "${{BASH_ENV:-}}" = {file} ] && [ -n "${{SHIM_BASH_ENV:-}}" ]; then
    eval "shim_file=\"$SHIM_BASH_ENV\""
    if [ -r "$shim_file" ]; then . "$shim_file"; fi
    unset shim_file
fi
# Not yet in the job where sbatch is a script too, and reads BASH_ENV as well.
if [ -n "${{SHIM_SKYPILOT:-}}" ] && [ "${{SHIM_SKYPILOT%%:*}}" != "${{SLURM_JOB_ID:-}}" ]; then
    if [ "${{BASH_ENV:-}}" = {file} ]; then
        if [ -n "${{SHIM_BASH_ENV:-}}" ]; then BASH_ENV=$SHIM_BASH_ENV; else unset BASH_ENV; fi
        unset SHIM_BASH_ENV
    fi
    SHIM_NODES=$({scontrol} show hostnames "${{SLURM_JOB_NODELIST:-}}" 2>/dev/null) || SHIM_NODES=
    SHIM_NODES=$(echo ${{SHIM_NODES:-${{SLURMD_NODENAME:-localhost}}}})
    SKYPILOT_NODE_IPS=$(getent ahostsv4 $SHIM_NODES 2>/dev/null | sed -n 's/ *STREAM.*//p') || SKYPILOT_NODE_IPS=
    if [ "$(echo "$SKYPILOT_NODE_IPS" | wc -w)" -ne "$(echo "$SHIM_NODES" | wc -w)" ]; then
        SKYPILOT_NODE_IPS=$(for shim_node in $SHIM_NODES; do echo "$shim_node"; done)
    fi
    SKYPILOT_NODE_RANK=0
    SKYPILOT_NUM_NODES=${{SLURM_JOB_NUM_NODES:-1}}
    SKYPILOT_NUM_GPUS_PER_NODE=${{SLURM_GPUS_ON_NODE:-0}}
    SKYPILOT_TASK_ID=${{SHIM_SKYPILOT#*:}}_$SLURM_JOB_ID
    SKYPILOT_TASK_IDS=$SKYPILOT_TASK_ID
    SKYPILOT_INTERNAL_JOB_ID=$SLURM_JOB_ID
    SKYPILOT_MANAGED_JOB_ID=$SLURM_JOB_ID
    SKYPILOT_JOB_RANK=$(( (${{SLURM_ARRAY_TASK_ID:-0}} - ${{SLURM_ARRAY_TASK_MIN:-0}}) / ${{SLURM_ARRAY_TASK_STEP:-1}} ))
    SKYPILOT_NUM_JOBS=${{SLURM_ARRAY_TASK_COUNT:-1}}
    SKYPILOT_USER=$(id -un 2>/dev/null) || SKYPILOT_USER=${{SLURM_JOB_USER:-}}
    SKYPILOT_CLUSTER_INFO=$(printf '%s' "${{SLURM_JOB_NAME:-}}" | sed 's/[\\\\"]/\\\\&/g') || SKYPILOT_CLUSTER_INFO=
    SKYPILOT_CLUSTER_INFO="{{\\"cluster_name\\": \\"$SKYPILOT_CLUSTER_INFO\\", \\"cloud\\": \\"Slurm\\", \\"region\\": \\"{cluster}\\", \\"zone\\": \\"${{SLURM_JOB_PARTITION:-}}\\"}}"
    export SHIM_NODES SKYPILOT_NODE_IPS SKYPILOT_NODE_RANK SKYPILOT_NUM_NODES SKYPILOT_NUM_GPUS_PER_NODE SKYPILOT_TASK_ID
    export SKYPILOT_TASK_IDS SKYPILOT_INTERNAL_JOB_ID SKYPILOT_MANAGED_JOB_ID SKYPILOT_JOB_RANK SKYPILOT_NUM_JOBS SKYPILOT_USER
    export SKYPILOT_CLUSTER_INFO
    if [ -x {prolog} ]; then
        if [ -n "${{SLURM_TASK_PROLOG:-}}" ] && [ "$SLURM_TASK_PROLOG" != {prolog} ]; then
            SHIM_TASK_PROLOG=$SLURM_TASK_PROLOG
            export SHIM_TASK_PROLOG
        fi
        SLURM_TASK_PROLOG={prolog}
        export SLURM_TASK_PROLOG
    fi
    unset SHIM_SKYPILOT
fi
"""
_PROLOG = """\
#!/bin/sh
# The rank of a task's node among the nodes of its job, for SKYPILOT_NODE_RANK. Written by shim; the user's own prolog runs too.
number=0
for node in ${SHIM_NODES:-}; do
    if [ "$node" = "${SLURMD_NODENAME:-}" ]; then echo "export SKYPILOT_NODE_RANK=$number"; fi
    number=$((number + 1))
done
if [ -n "${SHIM_TASK_PROLOG:-}" ]; then exec "$SHIM_TASK_PROLOG"; fi
"""


class Prepared:
    """A call of sbatch that gives its job the variables. ``copy``: a script to be removed once sbatch has read it."""

    def __init__(self, call: Call, ref: ClusterRef) -> None:
        self.copy = ""
        self._call = call
        try:
            self._file = files(ref)
            if self._prepared():
                outer = call.environment.get("SLURM_JOB_ID", "")
                call.environment["SHIM_SKYPILOT"] = f"{outer}:{_stamp()}_{ref.name}"
        except (OSError, ShimError, value_parsing.PrintAndExit):
            pass  # without the variables the job runs as ever; what is wrong with the command line sbatch will say

    def _prepared(self) -> bool:
        """Whether the batch step will read the file."""
        call = self._call
        settings, words, path = command_line.read("sbatch", call.argv[1:])
        wrap = settings.get("wrap")
        if wrap is not None:
            from shim.core.options.to_argv import with_value

            call.argv[1:] = with_value("sbatch", call.argv[1:], "wrap", f"{self._reads()}{wrap}")
            return True
        data = command_line.bytes_of(path) if path else command_line.standard_input()
        shell = interpreter(data)
        if shell == "bash":
            if call.environment.get("BASH_ENV"):
                call.environment["SHIM_BASH_ENV"] = call.environment["BASH_ENV"]
            call.environment["BASH_ENV"] = self._file
        elif shell in _SHELLS:
            changed = self._before_first_command(data)
            if path is None:
                command_line.put_back(changed)
            else:
                self._copy(words, path, changed)
        return shell == "bash" or shell in _SHELLS

    def _reads(self) -> str:
        """The shell code that reads the file where it is there."""
        return f"if [ -r {_quoted(self._file)} ]; then . {_quoted(self._file)}; fi; "

    def _before_first_command(self, data: bytes) -> bytes:
        text = script.text_of(data)
        number = len(list(script.header(text)))
        lines = text.split("\n")
        if number >= len(lines) or not lines[number].strip():
            return data  # a script without a command
        lines[number] = self._reads() + lines[number]
        return script.bytes_of("\n".join(lines))

    def _copy(self, words: Sequence[str], path: str, data: bytes) -> None:
        """The changed script under the same name, as that of the job is made of it."""
        folder = paths.ensure(f"{paths.state_dir()}/skypilot/{os.getpid()}.{time.monotonic_ns()}")
        self.copy = f"{folder}/{os.path.basename(path)}"
        with open(os.open(self.copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o700), "wb") as file:
            file.write(data)
        argv = self._call.argv
        argv[len(argv) - len(words)] = self.copy

    def over(self) -> None:
        """sbatch has ended."""
        if self.copy:
            try:
                os.unlink(self.copy)
                os.rmdir(os.path.dirname(self.copy))
            except OSError:
                pass  # it is small


def interpreter(data: bytes) -> str:
    """The name of the program that runs the script: ``bash`` for ``#!/bin/bash -l`` and for ``#!/usr/bin/env bash``."""
    words = data[2:].partition(b"\n")[0].decode("utf-8", "replace").split()
    if not data.startswith(b"#!") or not words:
        return ""
    if os.path.basename(words[0]) == "env":
        words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    return os.path.basename(words[0]) if words else ""


def files(ref: ClusterRef) -> str:
    """Writes the two files for the cluster where they are not there yet; the path of the one that scripts read."""
    folder = paths.ensure(f"{paths.state_dir()}/skypilot")
    file, prolog = f"{folder}/{ref.name}.sh", f"{folder}/{ref.name}.prolog"
    scontrol, _kind = programs.find("scontrol", ref.folder, os.environ.get("PATH", ""))
    text = _BATCH.format(file=_quoted(file), prolog=_quoted(prolog), scontrol=_quoted(scontrol), cluster=ref.name)
    _write(prolog, _PROLOG, 0o755)
    _write(file, text, 0o644)
    return file


def _write(path: str, text: str, mode: int) -> None:
    try:
        with open(path, encoding="utf-8") as file:
            if file.read() == text:
                return
    except FileNotFoundError:
        pass
    draft = f"{path}.{os.getpid()}"
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(draft, path)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _stamp() -> str:
    """The part of SKYPILOT_TASK_ID that is the moment of submission."""
    now = time.time()
    return f"sky-{time.strftime('%Y-%m-%d-%H-%M-%S', time.localtime(now))}-{int(now % 1 * 1000000):06d}"
