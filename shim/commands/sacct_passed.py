"""sacct for a real Slurm without accounting: its jobs that were submitted from here, by the index and by what it says of them now."""

from __future__ import annotations

import sys

from shim.commands import funnel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional

    from shim.commands.sacct_ask import Ask
    from shim.control.index.reader import Reader
    from shim.core.routing import Place

_NAMED = 10  # ids in a line of errors


class Found:
    """The jobs of one such cluster that are asked for, and what is not known of them."""

    def __init__(self, ask: Ask, place: Place, reader: Optional[Reader]) -> None:
        from shim.control.backends.slurm import remembering

        self._place = place
        rows = reader.passed_of(place.name, [one.job_id for one in ask.ids], ask.ended_since) if reader else []
        known, self._problem = remembering.brought_up([job for job in rows if ask.means(job)], place)
        fitting = [job for job in map(ask.narrow, known) if job is not None and ask.fits(job)]
        self.jobs = [job.replace(key=number) for number, job in enumerate(fitting)]  # by it steps are told apart

    def told(self, program: str) -> int:
        """Says on stderr what is missing; the exit code."""
        sys.stdout.flush()
        name = self._place.name
        lines = [f"{name}: Slurm accounting storage is disabled: these are the jobs that were submitted from here"]
        gone = [str(job.job_id) for job in self.jobs if job.system_comment]
        if gone:
            ids = ",".join(gone[:_NAMED] + ["…"] * (len(gone) > _NAMED))
            lines.append(f"{name}: what became of {ids} is not known: shown as seen last")
        if self._problem:
            lines.append(f"error: {name}: {self._problem}: its jobs are shown as they were seen last")
        funnel.say(program, *lines)
        return 1 if self._problem else 0
