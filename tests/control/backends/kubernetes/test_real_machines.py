"""Several machines and users in one namespace of a real cluster, by the real commands."""

from __future__ import annotations

import json
import shutil
import signal

import pytest

from shim.control.backends.kubernetes.run.register import Register
from tests.control.backends.kubernetes.home import until
from tests.control.backends.kubernetes.machines import Site, site

__all__ = ["site"]
pytestmark = pytest.mark.kubernetes
GO = 'while [ ! -e /tmp/go ]; do sleep 0.2; done; echo "done by $SLURM_JOB_ID"'


def test_two_machines_of_one_user(site: Site) -> None:
    one, two = site.machine("one"), site.machine("two")
    first = one.submit("sleep 600", "-J", "first", "-o", "/dev/null")
    second = two.submit("echo second; sleep 600", "-J", "second", "--begin=now+1hour")
    assert first != second
    for machine in (one, two):
        until(lambda machine=machine: machine.shown(first) == "RUNNING", "the first job's start")
        until(lambda machine=machine: machine.shown(second, "%T %j %u") == "PENDING second root", "the second job")
    # Whoever has the Lease, both act on both.
    two.run("scontrol", "hold", second)
    record = site.kubectl("get", "configmap", f"slurm-{second}", "-o", "jsonpath={.data}")
    assert "JobHeldUser" in record or "wishes" in record  # in the cluster before the command has returned
    for machine in (one, two):
        until(lambda machine=machine: machine.shown(second, "%r") == "JobHeldUser", "the hold")
    one.run("scontrol", "update", f"jobid={second}", "StartTime=now", "Comment=hello")
    one.run("scontrol", "release", second)
    until(lambda: two.shown(second) == "RUNNING", "the second job's start")
    assert "Comment=hello" in two.run("scontrol", "show", "job", second)
    output = two.folder / "work" / f"slurm-{second}.out"
    until(lambda: output.exists() and output.read_text() == "second\n", "the output on the machine that submitted")
    two.run("scancel", first)
    one.run("scancel", second)
    for job in (first, second):
        for machine in (one, two):
            until(lambda machine=machine, job=job: machine.shown(job) == "CANCELLED", "the end")
    assert two.run("sacct", "-n", "-X", "-P", "-j", first, "-o", "state").startswith("CANCELLED")
    until(lambda: "slurm-" + first not in site.kubectl("get", "configmaps", "-o", "name"), "the records' end")


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_the_machine_that_orders_is_gone(site: Site, how: signal.Signals) -> None:
    one, two = site.machine("one"), site.machine("two")
    runs = one.submit(f"echo begun; {GO}")
    until(lambda: one.shown(runs) == "RUNNING", "the start")
    waits = one.submit("echo ran", "--begin=now+20", "-o", "/dev/null")
    until(lambda: two.shown(waits) == "PENDING", "the job on the other machine")
    before = site.holder()
    one.signal(how)
    until(lambda: site.holder() not in ("", before), "another holder")
    until(lambda: two.shown(waits) == "COMPLETED", "the job that waited")
    pod = site.kubectl("get", "pods", "-l", f"slurm-shim.io/job-id={runs}", "-o", "name").strip()
    site.kubectl("exec", pod, "--", "touch", "/tmp/go")
    until(lambda: two.shown(runs) == "COMPLETED", "the job that ran")
    if how == signal.SIGSTOP:
        one.signal(signal.SIGCONT)
    until(lambda: one.shown(runs) == "COMPLETED" and one.shown(waits) == "COMPLETED", "the ends on the first machine")
    assert one.run("sacct", "-n", "-X", "-P", "-j", waits, "-o", "state,exitcode").strip() == "COMPLETED|0:0"
    output = one.folder / "work" / f"slurm-{runs}.out"
    until(lambda: output.read_text() == f"begun\ndone by {runs}\n", "the output")
    until(lambda: "slurm-" + runs not in site.kubectl("get", "configmaps", "-o", "name"), "the record's end")


def test_all_machines_are_off(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """What runs goes on to its end. What has met waits, leaves at boot_limit, and waits again for a machine that is on: without a command."""
    one = site.machine("one")
    with open(one.folder / "shim.toml", "a") as file:
        file.write("boot_limit = 20\nbind_wait = 5\n")
    runs = one.submit(f"echo begun; {GO}")
    until(lambda: one.shown(runs) == "RUNNING", "the start")
    one.end()
    monkeypatch.setenv("SHIM_TEST_CRASH", "start-asked")  # its pods are made, and nobody is there to let them begin
    waits = one.submit("echo ran", "-N2")
    monkeypatch.delenv("SHIM_TEST_CRASH")

    def ends(job: str) -> list[bool]:
        found = json.loads(site.kubectl("get", "pods", "-l", f"slurm-shim.io/job-id={job}", "-o", "json"))["items"]
        states = [one["status"].get("containerStatuses") or [{"state": {}}] for one in found]
        return ["terminated" in one[0]["state"] for one in states]

    def register(job: str) -> str:
        record = json.loads(site.kubectl("get", "configmap", f"slurm-{job}", "-o", "json"))["data"]
        return Register.from_dict(json.loads(record["register"])).state

    until(lambda: len(ends(waits)) == 2, "two pods that meet")
    one.end()
    assert not one.signal(signal.SIGCONT)
    leader = site.kubectl("get", "pods", "-l", f"slurm-shim.io/job-id={runs}", "-o", "name").strip()
    site.kubectl("exec", leader, "--", "touch", "/tmp/go")
    until(lambda: all(ends(runs)), "the end of what ran")
    until(lambda: all(ends(waits)), "the leaving of what had met")
    assert (register(runs), register(waits)) == ("granted", "made")  # nobody has written anything since
    two = site.machine("two")
    until(lambda: two.shown(waits) == "COMPLETED" and two.shown(runs) == "COMPLETED", "their ends")
    until(lambda: one.shown(waits) == "COMPLETED" and one.shown(runs) == "COMPLETED", "their ends on the first machine")
    for job, text in ((runs, f"begun\ndone by {runs}\n"), (waits, "ran\n")):
        output = one.folder / "work" / f"slurm-{job}.out"
        until(lambda output=output, text=text: output.exists() and output.read_text() == text, "the output")


def test_the_state_folder_is_removed_while_jobs_run(site: Site) -> None:
    one = site.machine("one")
    runs = one.submit(f"echo begun; {GO}")
    until(lambda: one.shown(runs) == "RUNNING", "the start")
    waits = one.submit("true", "--begin=now+1hour", "-o", "/dev/null")
    one.end()
    shutil.rmtree(one.state)
    until(lambda: one.shown(runs) == "RUNNING", "the job in a new index")
    until(lambda: one.shown(waits) == "PENDING", "the job that waits in a new index")
    one.run("scancel", waits)
    pod = site.kubectl("get", "pods", "-l", f"slurm-shim.io/job-id={runs}", "-o", "name").strip()
    site.kubectl("exec", pod, "--", "touch", "/tmp/go")
    until(lambda: one.shown(runs) == "COMPLETED", "the end")
    assert (one.folder / "work" / f"slurm-{runs}.out").read_text() == f"begun\ndone by {runs}\n"
    assert int(one.submit("true", "-o", "/dev/null")) > int(waits)


def test_three_users_with_the_documented_role(site: Site) -> None:
    ann, bob, eve = [site.machine(name, site.user(name)) for name in ("ann", "bob", "eve")]
    first = ann.submit("echo of ann; sleep 600", "-J", "anns")
    until(lambda: ann.shown(first) == "RUNNING", "ann's job")
    second = bob.submit(f"echo of bob; {GO}", "-J", "bobs")  # until all have seen it
    third = eve.submit("true", "-H", "-o", "/dev/null")
    assert len({first, second, third}) == 3
    until(lambda: bob.shown(second) == "RUNNING", "bob's job")
    for machine, users in ((ann, "root bob eve"), (bob, "ann root eve"), (eve, "ann bob root")):
        until(
            lambda machine=machine, users=users: (
                " ".join(machine.shown(job, "%u") for job in (first, second, third)) == users
            ),
            "whose jobs they are",
        )
    refused = bob.ask("scancel", first)
    assert refused.stderr == f"scancel: error: Kill job error on job id {first}: Access/permission denied\n"
    assert refused.returncode == 210
    refused = bob.ask("scontrol", "hold", third)
    assert (refused.returncode, refused.stderr.splitlines()[0]) == (1, f"Access/permission denied for job {third}")
    until(lambda: eve.shown(third, "%T %r") == "PENDING JobHeldUser", "the hold, as it was")
    pod = site.kubectl("get", "pods", "-l", f"slurm-shim.io/job-id={second}", "-o", "name").strip()
    site.kubectl("exec", pod, "--", "touch", "/tmp/go")
    until(lambda: bob.shown(second) == "COMPLETED", "the end of bob's job")
    output = bob.folder / "work" / f"slurm-{second}.out"
    until(
        lambda: output.exists() and output.read_text() == f"of bob\ndone by {second}\n", "bob's output on bob's machine"
    )
    eve.run("scontrol", "release", third)
    until(lambda: ann.shown(third) == "COMPLETED", "eve's job, as ann sees it")
    ann.run("scancel", first)
    until(lambda: eve.shown(first) == "CANCELLED", "the end of ann's job, as eve sees it")
    assert (ann.folder / "work" / f"slurm-{first}.out").read_text().startswith("of ann\n")


def test_a_wide_job_is_not_starved_by_narrow_ones_of_another_user(site: Site) -> None:
    ann, bob = site.machine("ann", site.user("ann")), site.machine("bob", site.user("bob"))
    gpus = ("-w", "node2", "-o", "/dev/null")
    busy = ann.submit("sleep 10", "--gres=gpu:3", "-t", "1", *gpus)
    until(lambda: ann.shown(busy) == "RUNNING", "the first job")
    wide = ann.submit("sleep 3", "--gres=gpu:4", "-t", "5", *gpus)
    # One GPU is free, and they would hold it for longer than the first job runs.
    narrow = [bob.submit("sleep 3", "--gres=gpu:1", "-t", "5", *gpus) for _ in range(3)]
    until(lambda: all(bob.shown(one) == "COMPLETED" for one in narrow), "all jobs")
    times = bob.run("sacct", "-n", "-X", "-P", "-j", ",".join([wide, *narrow]), "-o", "jobid,start").split()
    starts = dict(line.split("|") for line in times)
    assert all(starts[wide] < starts[one] for one in narrow)
