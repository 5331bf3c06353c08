"""Mail goes through the program that the configuration names."""

from __future__ import annotations

import asyncio
from pathlib import Path

from shim.control import paths
from tests.control.controller.fakes import CLUSTER, Bench, Client, bench


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
    # The programs are waited for before the loop ends: their ends would be told to a later test.
    sending = [task for task in asyncio.all_tasks() if getattr(task.get_coro(), "__name__", "") == "_send"]
    if sending:
        await asyncio.wait(sending)
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


@bench
async def test_parts_of_the_time_limit_are_told_once_each_when_they_have_passed(box: Bench) -> None:
    path = program(Path(paths.state_dir()))
    box.controller.world.clusters["local"] = CLUSTER.replace(mail_prog=str(path))
    job_id = await box.submit(name="sim", time_limit=10, mail_type="TIME_LIMIT_50,TIME_LIMIT_90", mail_user="bob")
    box.backend.tell(job_id, "started")
    await box.settle()
    start = box.job(job_id).start_time
    assert box.controller.mailer.alarm.due == start + 300
    await box.pass_time(299)
    assert box.controller.mailer.alarm.due == start + 300
    await box.pass_time(1)
    assert box.controller.mailer.alarm.due == start + 540
    begin = f"Slurm Job_id={job_id} Name=sim Reached"
    half = ["-s", f"{begin} 50% of time limit, Run time 00:05:00", "bob", "TIME_LIMIT_50"]
    assert await sent(path, 1) == [half]
    # With a longer limit half of it is not told again; the other mark moves.
    assert await box.results("update", {"job_id": job_id}, client=Client(0), fields={"TimeLimit": "20"}) == [None]
    await box.pass_time(240)
    assert box.controller.mailer.alarm.due == start + 1080
    await box.pass_time(540)
    assert await sent(path, 2) == [
        half,
        ["-s", f"{begin} 90% of time limit, Run time 00:18:00", "bob", "TIME_LIMIT_90"],
    ]
    assert box.controller.mailer.alarm.due is None


@bench
async def test_marks_of_jobs_that_ran_before_the_controller_began_are_awaited(box: Bench) -> None:
    path = program(Path(paths.state_dir()))
    box.backend.cluster = CLUSTER.replace(mail_prog=str(path))
    job_id = await box.submit(time_limit=10, mail_type="TIME_LIMIT_50,TIME_LIMIT_80", mail_user="bob")
    box.backend.tell(job_id, "started")
    await box.settle()
    start = box.job(job_id).start_time
    await box.controller.close()
    box.clock.now += 400
    again = await Bench(box.backend, box.clock).open()
    assert again.controller.mailer.alarm.due == start + 480
    await again.pass_time(80)
    assert [words[-1] for words in await sent(path, 1)] == ["TIME_LIMIT_80"]
    await again.controller.close()
