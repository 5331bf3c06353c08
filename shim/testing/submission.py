"""What `sbatch` says: a matcher for its text, and its refusal."""

from __future__ import annotations

import re
from collections.abc import Sequence

_TEXT = re.compile(r"^Submitted batch job (\d+)(?: on cluster (\S+))?$", re.MULTILINE)


class Submitted:
    """Equal to every text that is exactly what `sbatch` prints for a job that was accepted.

    ``job_id``, ``cluster``: of that job alone. After a comparison that held, ``job_id`` is the job's.
    """

    def __init__(self, job_id: int | None = None, cluster: str | None = None) -> None:
        self.job_id = job_id
        self.cluster = cluster

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, str):
            return NotImplemented
        found = _TEXT.fullmatch(other.removesuffix("\n"))
        if found is None or self.job_id not in (None, int(found[1])) or self.cluster not in (None, found[2]):
            return False
        self.job_id = int(found[1])
        return True

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        where = f" on cluster {self.cluster}" if self.cluster is not None else ""
        return f"<Submitted batch job {'N' if self.job_id is None else self.job_id}{where}>"


def ids(text: str) -> list[int]:
    """The ids of all jobs that a text says were submitted, whatever else is in it."""
    return [int(job_id) for job_id, _cluster in _TEXT.findall(text)]


class SubmitError(Exception):
    """`sbatch` refused a job. ``code``: its exit code; ``text``: its errors, as it printed them."""

    def __init__(self, command: Sequence[str], code: int, text: str) -> None:
        super().__init__(text.strip() or f"{command[0]} ended with exit code {code}")
        self.command = tuple(command)
        self.code = code
        self.text = text
