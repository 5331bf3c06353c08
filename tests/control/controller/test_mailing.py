"""Mail goes through the program that the configuration names."""

from __future__ import annotations

import asyncio
from pathlib import Path

from shim.control import paths
from tests.control.controller.fakes import CLUSTER, Bench, bench


def program(folder: Path) -> Path:
    """Instead of /bin/mail: a file with its arguments for each mail, which appears at once."""
    path = folder / "mail"
    path.write_text('#!/bin/sh\nprintf "%s\\n" "$@" "$SLURM_JOB_MAIL_TYPE" >"$0.$$"; mv "$0.$$" "$0.sent.$$"\n')
    path.chmod(0o755)
    return path


async def sent(path: Path, count: int) -> list[list[str]]:
    for _ in range(3000):
        found = sorted(path.parent.glob("mail.sent.*"))
        if len(found) >= count:
            break
        await asyncio.sleep(0.01)
    return sorted(one.read_text().splitlines() for one in found)


@bench
async def test_a_job_that_wants_mail_at_its_begin_and_end(box: Bench) -> None:
    path = program(Path(paths.state_dir()))
    box.controller.world.clusters["local"] = CLUSTER.replace(mail_prog=str(path))
    job_id = await box.submit(name="sim", mail_type="BEGIN,END", mail_user="bob@example.org")
    await box.submit(name="silent")
    box.backend.tell(job_id, "started")
    box.backend.tell(job_id, "ended", state="COMPLETED", status=0)
    await box.settle()
    begun, ended = await sent(path, 2)
    start = f"Slurm Job_id={job_id} Name=sim "
    assert begun == ["-s", f"{start}Began, Queued time 00:00:00", "bob@example.org", "BEGIN"]
    assert ended == ["-s", f"{start}Ended, Run time 00:00:00, COMPLETED, ExitCode 0", "bob@example.org", "END"]


@bench
async def test_a_program_that_is_none_and_a_user_like_an_option_cost_nothing(box: Bench) -> None:
    for prog, user in (("/nonexistent/mail", "bob"), (str(program(Path(paths.state_dir()))), "-X")):
        box.controller.world.clusters["local"] = CLUSTER.replace(mail_prog=prog)
        job_id = await box.submit(mail_type="BEGIN", mail_user=user)
        box.backend.tell(job_id, "started")
        await box.settle()
        assert box.job(job_id).state == "RUNNING"
    assert not list(Path(paths.state_dir()).glob("mail.sent.*"))
