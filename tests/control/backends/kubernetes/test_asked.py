"""What a job may ask for, as its cluster is."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from shim.control.backends.base import BackendError
from shim.control.backends.kubernetes.objects import gang_builder, volumes
from shim.control.backends.kubernetes.settings import Settings
from shim.control.backends.kubernetes.submit import submit_checks
from shim.core.errors import ShimError
from shim.core.model.cluster import Cluster
from shim.core.model.job import Job, NodeShare
from shim.core.model.request import JobRequest, StepRequest
from shim.core.placement.step_values import ShareUse
from shim.job.agent.step_manager.parts import Wish, lay_out
from shim.job.spec import RunSpec

SETTINGS = Settings(mounts=({"path": "/home", "pvc": "home"}, {"path": "/data", "host_path": "/data"}))


@pytest.mark.parametrize(
    "mounts", ["", "/home", "/home:/home", "/home/u/x:/home/u/x:ro", "/home:/home,/data/set:/data/set", "/data/:/data/"]
)
def test_mounts_that_the_pods_have_anyway(mounts: str) -> None:
    volumes.check_asked(mounts, SETTINGS)


@pytest.mark.parametrize("mounts", ["/scratch", "/home:/h", "/scratch:/scratch", "/home:/home,/x:/x", "/homes:/homes"])
def test_mounts_that_would_be_needed(mounts: str) -> None:
    with pytest.raises(BackendError, match="--container-mounts="):
        volumes.check_asked(mounts, SETTINGS)


def job(**request: Any) -> Job:
    share = NodeShare(name="n1", cpus=2)
    return Job(
        cluster="c", job_id=1, submit_time=0.0, uid=1, shares=(share,), nodes=1, cpus=2, request=JobRequest(**request)
    )


@pytest.mark.parametrize("constraint", [None, "", "a", "a&b", "a|b", "[a|b]", "(a|b)&c"])
def test_features_that_described_nodes_can_be_chosen_by(constraint: str | None) -> None:
    submit_checks.check_described(job(constraint=constraint))


@pytest.mark.parametrize("constraint", ["a*2", "a*1&b*2"])
def test_features_that_only_real_nodes_can_be_chosen_by(constraint: str) -> None:
    with pytest.raises(BackendError, match="cannot be counted"):
        submit_checks.check_described(job(constraint=constraint))
    submit_checks.check_described(job(constraint=constraint, node_list="n1"))


def laid_out(asked: str | None, backend: str) -> int:
    """How many parts a step has that asks for an image in a job with another one."""
    spec = RunSpec(job=job(container_image="img:1"), cluster=Cluster(name="c", backend=backend))
    return len(lay_out([Wish(StepRequest(container_image=asked), {})], spec, [ShareUse()], {}))


@pytest.mark.parametrize("asked", [None, "img:1"])
def test_a_step_with_the_image_of_its_job(asked: str | None) -> None:
    assert laid_out(asked, "kubernetes") == 1


def test_a_step_with_another_image() -> None:
    with pytest.raises(ShimError, match="the job runs in the image img:1"):
        laid_out("img:2", "kubernetes")
    assert laid_out("img:2", "local") == 1


def with_output(work_dir: str, stdout: str, stderr: str) -> Job:
    return job(work_dir=work_dir, kind="batch").replace(stdout=stdout, stderr=stderr)


@pytest.mark.parametrize(
    ("stdout", "folders"),
    [
        ("/project/slurm-1.out", ()),
        ("/project/logs/1.out", ()),  # the agent makes it
        ("/logs/1.out", ("/logs",)),
        ("/projects/1.out", ("/projects",)),
        ("/home/u/logs/1.out", ()),  # mounted
        ("/tmp/1.out", ()),
        ("/dev/null", ()),
        ("", ()),
    ],
)
def test_folders_that_the_output_needs(stdout: str, folders: tuple[str, ...]) -> None:
    assert gang_builder.folders_of(with_output("/project", stdout, stdout), SETTINGS) == folders


def test_output_files_are_made_here_unless_the_pods_share_them(tmp_path: Path) -> None:
    (tmp_path / "old.err").write_text("four")
    mounted = Settings(mounts=({"path": f"{tmp_path}/shared", "pvc": "x"},))
    found = submit_checks.outputs(with_output("/w", f"{tmp_path}/new.out", f"{tmp_path}/shared/x.err"), mounted)
    assert found == (("stdout", f"{tmp_path}/new.out", 0),)
    assert not (tmp_path / "shared").exists()
    appended = with_output("/w", "/dev/null", f"{tmp_path}/old.err").replace(restarts=1)
    assert submit_checks.outputs(appended, mounted) == (("stderr", f"{tmp_path}/old.err", 4),)


def test_an_output_file_that_cannot_be_made_fails_the_job(tmp_path: Path) -> None:
    with pytest.raises(BackendError, match="could not open stdout file") as problem:
        submit_checks.outputs(with_output("/w", f"{tmp_path}/no/new.out", ""), SETTINGS)
    assert not problem.value.transient


def test_a_folder_that_its_submitter_is_about_to_make_is_waited_for(tmp_path: Path) -> None:
    waited: list[float] = []

    def pause(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 3:
            (tmp_path / "log_1").mkdir()

    asked = with_output("/w", f"{tmp_path}/log_1/out", f"{tmp_path}/log_1/err")
    found = submit_checks.outputs(asked, SETTINGS, 2, pause)
    assert [path for _, path, _ in found] == [f"{tmp_path}/log_1/out", f"{tmp_path}/log_1/err"]
    assert len(waited) == 3
    with pytest.raises(BackendError, match="could not open stdout file"):
        submit_checks.outputs(with_output("/w", f"{tmp_path}/no/out", f"{tmp_path}/no/err"), SETTINGS, 2, pause)
    assert sum(waited[3:]) == pytest.approx(2, abs=0.1)


class Site:
    """A namespace that allows some verbs on pods/exec."""

    namespace = "mine"

    def __init__(self, *verbs: str) -> None:
        self.access = self
        self.asked: list[str] = []
        self._verbs = verbs

    async def can(self, verb: str, resource: str, *, namespace: str, subresource: str) -> bool:
        assert (resource, namespace, subresource) == ("pods", "mine", "exec")
        self.asked.append(verb)
        return verb in self._verbs


def ask_reach(site: Site, times: int = 1) -> None:
    async def ask() -> None:
        one = submit_checks.DryRuns(cast(Any, site))
        for _ in range(times):
            await one.ask_reach()

    asyncio.run(ask())


def test_a_job_whose_first_pod_could_ask_nobody_is_refused() -> None:
    with pytest.raises(BackendError, match="needs pods/exec"):
        ask_reach(Site())


def test_streams_that_are_allowed_are_asked_for_once() -> None:
    for verbs, asked in ((("create",), ["create"]), (("get",), ["create", "get"])):
        site = Site(*verbs)
        ask_reach(site, 2)
        assert site.asked == asked
