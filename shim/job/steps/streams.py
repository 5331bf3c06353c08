"""Where a task's stdin, stdout and stderr of a step come from and go to: what ``-i``, ``-o`` and ``-e`` mean. Pure.

    (none), all   stdout, stderr: srun's own; stdin: srun's own, copied to every task
    none          nowhere
    a number      that task alone has it, the others have none
    a file name   with %t or %n in it: a file of each task, opened on its node; otherwise one file, which srun itself reads
                  or writes for all tasks

An unset stderr goes where stdout goes.
"""

from __future__ import annotations

from shim.core.value import Value

PER_TASK = "tnN"  # pattern letters that differ between tasks


class Stream(Value):
    """One stream of a step. ``kind``: "srun", "none", "task" (``rank`` alone), "shared" (a file of srun's), "files" (per task)."""

    kind: str = "srun"
    rank: int = -1
    pattern: str = ""


SRUN = Stream()


def stream_of(text: str | None) -> Stream:
    """The stream that an option's text stands for."""
    if text is None or text == "all":
        return SRUN
    if text == "none":
        return Stream(kind="none")
    if text.isascii() and text.isdigit():
        return Stream(kind="task", rank=int(text))
    return Stream(kind="files" if _differs(text) else "shared", pattern=text)


def streams_of(stdin: str | None, stdout: str | None, stderr: str | None) -> tuple[Stream, Stream, Stream]:
    """stdin, stdout and stderr of a step. ``stderr`` without an option of its own shares a file with stdout."""
    out = stream_of(stdout)
    return stream_of(stdin), out, stream_of(stderr) if stderr is not None else out


def _differs(pattern: str) -> bool:
    """Whether the file name differs from task to task; a backslash turns patterns off."""
    if "\\" in pattern:
        return False
    position = pattern.find("%")
    while position >= 0:
        letter = position + 1
        while letter < len(pattern) and pattern[letter].isdigit():
            letter += 1
        if letter < len(pattern) and pattern[letter] in PER_TASK:
            return True
        position = pattern.find("%", letter + 1)
    return False
