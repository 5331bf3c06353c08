"""Who orders and who places, on a real cluster, by the real commands."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator

import pytest

from compat.cluster.kubernetes.settings import IMAGE_PYTHON
from tests.control.backends.kubernetes.home import Home, home, until

__all__ = ["home"]
pytestmark = pytest.mark.kubernetes


def test_pods_are_made_for_nodes_that_are_still_to_come(home: Home) -> None:
    label = f"slurm-shim.test/{home.namespace}"
    home.configure(f'autoscale = true\nautoscale_nodes = 2\nnode_selector = {{ "{label}" = "new" }}\n')
    assert "idle~ debug-cloud-[1-2]" in " ".join(home.run("sinfo", "-h").split())
    job = home.submit("hostname", "-N2", "-o", "/dev/null")
    until(lambda: "didn't match" in home.run("scontrol", "show", "job", job), "the scheduler's words")
    assert home.shown(job, "%T:%r:%N") == "CONFIGURING:Resources:"
    assert len(home.pods(job)) == 2
    home.kubectl("label", "node", "node1", "node3", f"{label}=new")
    try:
        until(lambda: home.shown(job) == "COMPLETED", "the job's end")
        assert home.shown(job, "%N") == "node[1,3]"
    finally:
        home.kubectl("label", "node", "node1", "node3", f"{label}-")


@pytest.fixture
def classes(home: Home) -> Iterator[tuple[str, str]]:
    """Two PriorityClasses, the lower one first."""
    own = secrets.token_hex(3)
    names = (f"shim-test-low-{own}", f"shim-test-high-{own}")
    # Below what other tests on this cluster have: those make way for nobody.
    for name, value in zip(names, (-1000, -10)):
        home.kubectl("create", "priorityclass", name, f"--value={value}")
    yield names
    home.kubectl("delete", "priorityclass", *names)


def test_who_must_leave_is_told_so(home: Home, classes: tuple[str, str]) -> None:
    low, high = classes
    home.configure(
        f'partitions.low = {{ priority_class = "{low}", default = true }}\n'
        f'partitions.high = {{ priority_class = "{high}" }}\n'
    )
    # All of one node's GPUs, and no other node will do.
    first = home.submit("sleep 600", "--gres=gpu:4", "-w", "node2", "--no-requeue", "-o", "/dev/null")
    until(lambda: home.shown(first) == "RUNNING", "the first job's start")
    second = home.submit("true", "--gres=gpu:4", "-w", "node2", "-p", "high", "-o", "/dev/null")
    until(lambda: home.shown(second) == "COMPLETED", "the second job's end")
    assert home.shown(first, "%T:%t") == "PREEMPTED:PR"
    assert home.run("sacct", "-n", "-X", "-P", "-j", first, "-o", "state,exitcode").strip() == "PREEMPTED|0:0"
    assert "SystemComment=default-scheduler: preempting" in home.run("scontrol", "show", "job", first)
    until(lambda: not home.pods(first), "its pods to be gone")


def test_hosts_are_named_by_users_alone(home: Home) -> None:
    home.configure()
    free = home.submit("true", "-x", "node1", "-o", "/dev/null")
    named = home.submit("true", "-w", "node3", "-o", "/dev/null")
    spread = home.submit("sleep 1", "-N3", "-o", "/dev/null")
    for job in (free, named, spread):
        until(lambda job=job: home.shown(job) == "COMPLETED", "the job's end")  # type: ignore[misc]
    assert home.shown(free, "%N") in ("node2", "node3")
    assert home.shown(named, "%N") == "node3"
    assert home.shown(spread, "%N") == "node[1-3]"


def test_pods_that_cannot_meet_say_so_and_end(home: Home) -> None:
    nowhere = '{ spec = { dnsPolicy = "None", dnsConfig = { nameservers = ["10.99.99.99"] } } }'
    home.configure(f"boot_limit = 30\noverlay = {nowhere}\n")
    job = home.submit("true", "-N2", "-o", "/dev/null")
    until(lambda: home.shown(job, "%T:%r") == "CONFIGURING:NodesCannotMeet", "what keeps them apart")
    said = "SystemComment=slurm-1-1 does not find slurm-1-0: the DNS at 10.99.99.99 does not answer (UDP port 53)"
    assert said in home.run("scontrol", "show", "job", job)
    until(lambda: home.shown(job, "%T:%r") == "BOOT_FAIL:JobLaunchFailure", "the end")


def test_what_keeps_jobs_from_starting_is_said_within_seconds(home: Home) -> None:
    """A quota, labels that no node has, an image that cannot be pulled, a volume that is not there."""
    home.configure(
        "bind_wait = 30\n"
        "partitions.all = { default = true }\n"
        'partitions.none = { node_selector = { "slurm-shim.test/none" = "here" } }\n'
        'partitions.image = { image = "shim-compat.local/missing:1" }\n'
        'partitions.volume = { mounts = [{ path = "/late", secret = "missing" }] }\n'
    )
    kept = home.submit("sleep 600", "-o", "/dev/null")
    until(lambda: home.shown(kept) == "RUNNING", "a job that has all of the quota")
    home.kubectl("create", "quota", "small", "--hard=pods=1")
    wanted = {
        "all": ("AssocGrpResourceLimit", "exceeded quota: small"),
        "none": ("PartitionNodeLimit", "none of the cluster's 3 nodes has the labels of partition none"),
    }
    seen = {"image": ("Err|ImagePull", "shim-compat.local/missing:1"), "volume": ("FailedMount", '"missing" not found')}

    def said(jobs: dict[str, str], words: dict[str, tuple[str, str]]) -> bool:
        def one(partition: str) -> bool:
            reason, text = words[partition]
            shown = home.shown(jobs[partition], "%r")
            return any(part in shown for part in reason.split("|")) and text in home.run(
                "scontrol", "show", "job", jobs[partition]
            )

        return all(one(partition) for partition in words)

    for words in (wanted, seen):
        at = time.monotonic()
        jobs = {partition: home.submit("true", "-p", partition, "-o", "/dev/null") for partition in words}
        until(lambda jobs=jobs, words=words: said(jobs, words), f"the reasons of {jobs}")  # type: ignore[misc]
        print(f"told after {time.monotonic() - at:.1f} s: {words}")
        home.run("scancel", *jobs.values())
        if words is wanted:
            home.kubectl("delete", "quota", "small")
    home.run("scancel", kept)


def test_a_wide_job_is_not_passed_by_while_it_waits_for_others(home: Home) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "other"},
        "spec": {
            "restartPolicy": "Never",
            "activeDeadlineSeconds": 15,
            "terminationGracePeriodSeconds": 0,
            "nodeSelector": {"kubernetes.io/hostname": "node1"},
            "containers": [
                {
                    "name": "c",
                    "image": IMAGE_PYTHON,
                    "command": ["sleep", "600"],
                    "resources": {"limits": {"nvidia.com/gpu": "4"}},
                }
            ],
        },
    }
    (home.folder / "pod.json").write_text(json.dumps(pod))
    home.kubectl("apply", "-f", str(home.folder / "pod.json"))
    until(lambda: "Running" in home.kubectl("get", "pod", "other"), "the other pod")
    home.configure()
    wide = home.submit("true", "-N2", "-w", "node[1-2]", "--gres=gpu:4", "-t1", "-o", "/dev/null")
    narrow = home.submit("true", "-w", "node2", "--gres=gpu:4", "-t10", "-o", "/dev/null")
    until(lambda: home.shown(narrow) == "COMPLETED", "the end of all")
    began = home.run("sacct", "-n", "-X", "-P", "-j", f"{wide},{narrow}", "-o", "state,start").split()
    assert [one.split("|")[0] for one in began] == ["COMPLETED", "COMPLETED"]
    assert began[0] < began[1], "node2 was free for the narrow one all the time"
