"""File names of jobs and steps: ``%j``, ``%A_%a``, ``%t`` … in -o, -e and -i."""

from __future__ import annotations

from shim.core.formats.integers import leading_digits
from shim.core.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.core.model.job import Job

NO_ARRAY_TASK = 4294967294  # what %a gives outside an array
_MAX_WIDTH = 10


class Names(Value):
    """What the letters of a pattern stand for. ``step`` is "batch" in a batch script."""

    job_id: int
    array_job_id: int = 0
    array_task_id: int | None = None
    job_name: str = ""
    user: str = ""
    host: str = ""  # of the task's node; only its first label is used
    node: int = 0  # relative to the step
    task: int = 0
    step: str = "batch"


def job_names(job: Job) -> Names:
    """The names for the files of a batch script, also of a job that has not started."""
    first = job.shares[0].host or job.shares[0].name if job.shares else ""
    return Names(
        job_id=job.job_id,
        array_job_id=job.array_job_id,
        array_task_id=job.array_task_id,
        job_name=job.request.name or "",
        user=job.user,
        host=first,
    )


def job_files(job: Job) -> tuple[str, str, str]:
    """Absolute paths of a batch script's output, error and input: the patterns expanded, the defaults filled in.

    No -o gives ``slurm-%j.out``, in an array ``slurm-%A_%a.out``; no -e the output file; no -i, and ``none``, /dev/null.
    """
    request = job.request
    in_array = bool(job.array_job_id or job.array_spec or request.array)
    names = job_names(job)
    usual = "slurm-%A_%a.out" if in_array else "slurm-%j.out"
    out = _file(usual if request.stdout is None else request.stdout, names, request.work_dir)
    err = out if request.stderr is None else _file(request.stderr, names, request.work_dir)
    return out, err, _file("none" if request.stdin is None else request.stdin, names, request.work_dir)


def _file(pattern: str, names: Names, folder: str) -> str:
    if pattern.lower() == "none":
        return "/dev/null"
    path = expand(pattern, names)
    return path if path.startswith("/") else f"{folder.rstrip('/')}/{path}"


def expand(pattern: str, names: Names) -> str:
    """``pattern`` with its letters replaced. ``%4j`` pads numbers with zeros; unknown letters stay as they are.

    A backslash anywhere turns patterns off and goes away.
    """
    if "\\" in pattern:
        return _unescaped(pattern)
    text, sign, rest = pattern.partition("%")
    while sign:
        width, after = leading_digits(rest)
        value = _value(after[:1], names)
        if value is None:
            text += "%" + rest[: len(rest) - len(after) + 1]
        elif isinstance(value, int):
            text += str(value).zfill(min(width, _MAX_WIDTH))
        else:
            text += value
        literal, sign, rest = after[1:].partition("%")
        text += literal
    return text


def _value(letter: str, names: Names) -> int | str | None:
    if letter == "j":
        return names.job_id
    if letter == "A":
        return names.array_job_id or names.job_id
    if letter == "a":
        return NO_ARRAY_TASK if names.array_task_id is None else names.array_task_id
    if letter == "n":
        return names.node
    if letter == "t":
        return names.task
    if letter == "s":
        return int(names.step) if names.step.isdigit() else names.step
    if letter == "J":
        return str(names.job_id) if names.step == "batch" else f"{names.job_id}.{names.step}"
    if letter == "x":
        return names.job_name or "(null)"
    if letter == "u":
        return names.user
    if letter == "N":
        return names.host if _is_address(names.host) else names.host.split(".")[0]
    return "%" if letter == "%" else None


def _is_address(host: str) -> bool:
    return host.replace(".", "").isdigit()


def _unescaped(pattern: str) -> str:
    text = ""
    escaped = False
    for char in pattern:
        if char == "\\" and not escaped:
            escaped = True
            continue
        text += char
        escaped = False
    return text
