"""Which cluster answers: the job one is in, -M, the partition, the default."""

from __future__ import annotations

import pytest

from shim.core import routing
from shim.core.routing import ClusterRef

LOCAL = ClusterRef("local", "local", ("debug",))
PODS = ClusterRef("pods", "kubernetes", ("gpu", "both"))
HPC = ClusterRef("hpc", "slurm", ("big", "both"))
OPEN = ClusterRef("open", "slurm")  # its partitions are not listed
REAL_JOB = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n1"}
OWN_JOB = {**REAL_JOB, "SHIM_RUN_DIR": "/state/run/local/7.0"}


def where(
    program: str,
    refs: tuple[ClusterRef, ...],
    environ: dict[str, str] | None = None,
    argv: tuple[str, ...] = (),
    asked: tuple[str, str] = ("", ""),
) -> str:
    route = routing.route(program, argv, environ or {}, refs, lambda: asked)
    return route.ref.name if route is not None else "ours"


@pytest.mark.parametrize("program", ["sbatch", "squeue", "scontrol"])
def test_without_a_real_slurm_everything_is_ours_and_nothing_is_read(program: str) -> None:
    def never() -> tuple[str, str]:
        raise AssertionError("the script was read")

    assert routing.route(program, (), {}, (LOCAL, PODS), never) is None


@pytest.mark.parametrize("program", ["sbatch", "srun", "salloc", "squeue", "scancel", "sinfo", "scontrol", "sacct"])
def test_the_only_cluster_answers_everything(program: str) -> None:
    assert where(program, (HPC,)) == "hpc"
    assert where(program, (HPC,), argv=("-M", "theirs")) == "hpc"


@pytest.mark.parametrize(
    ("asked", "ref"),
    [
        (("", ""), "ours"),
        (("", "debug"), "ours"),
        (("", "big"), "hpc"),
        (("", "both"), "ours"),  # the first that lists it
        (("", "nowhere"), "open"),
        (("hpc", "debug"), "hpc"),
        (("local", "big"), "ours"),
        (("nosuch", ""), "ours"),
        (("pods,hpc", ""), "ours"),
    ],
)
def test_submissions_go_by_cluster_then_partition_then_default(asked: tuple[str, str], ref: str) -> None:
    assert where("sbatch", (LOCAL, PODS, HPC, OPEN), asked=asked) == ref


@pytest.mark.parametrize(
    ("asked", "ref"),
    [
        (("", ""), "hpc"),
        (("", "debug"), "ours"),
        (("", "nowhere"), "hpc"),
        (("theirs", ""), "hpc"),
        (("local", ""), "ours"),
    ],
)
def test_a_real_slurm_as_the_default(asked: tuple[str, str], ref: str) -> None:
    assert where("srun", (HPC, LOCAL), asked=asked) == ref


def test_queries_of_several_clusters_are_ours() -> None:
    assert where("squeue", (HPC, LOCAL)) == "ours"
    assert where("squeue", (HPC, OPEN)) == "ours"


@pytest.mark.parametrize("program", ["sbatch", "srun", "squeue", "scancel"])
def test_in_a_job_of_a_real_slurm_it_answers_whatever_the_default_is(program: str) -> None:
    assert where(program, (LOCAL, HPC), REAL_JOB) == "hpc"
    assert where(program, (LOCAL,), REAL_JOB) == "slurm"
    assert where(program, (LOCAL, HPC, OPEN), {**REAL_JOB, "SLURM_CLUSTER_NAME": "open"}) == "open"
    told = ClusterRef("told", "slurm", conf="/etc/told.conf")
    assert where(program, (LOCAL, HPC, told), {**REAL_JOB, "SLURM_CONF": "/etc/told.conf"}) == "told"


def test_in_a_job_of_a_real_slurm_a_cluster_of_ours_can_be_named() -> None:
    assert where("sbatch", (LOCAL, HPC), REAL_JOB, ("-Mlocal",), ("local", "")) == "ours"
    assert where("sbatch", (LOCAL, HPC), REAL_JOB, ("local.sh",), ("", "")) == "hpc"


def test_in_a_job_of_ours_its_steps_are_ours_and_submissions_go_as_elsewhere() -> None:
    assert where("srun", (HPC,), OWN_JOB) == "ours"
    assert where("sbatch", (HPC,), OWN_JOB) == "hpc"
    assert where("squeue", (LOCAL, HPC), OWN_JOB) == "ours"
    assert where("sbatch", (HPC, LOCAL), {**OWN_JOB, "SLURM_CLUSTER_NAME": "local"}) == "ours"
    assert where("sbatch", (HPC, LOCAL), {**OWN_JOB, "SLURM_CLUSTER_NAME": "local"}, asked=("", "big")) == "hpc"


def test_a_real_allocation_made_in_a_job_of_ours_is_the_inner_one() -> None:
    assert where("srun", (LOCAL, HPC), {**OWN_JOB, "SLURM_JOB_ID": "8"}) == "hpc"


def test_a_job_id_alone_is_what_the_user_wants_to_attach_to() -> None:
    assert where("srun", (LOCAL,), {"SLURM_JOB_ID": "7"}) == "ours"


def sent(program: str, *argv: str, real_name: str = "", environ: dict[str, str] | None = None) -> list[str]:
    ref = ClusterRef("hpc", "slurm", real_name=real_name)
    route = routing.route(program, argv, environ or {}, (ref,), lambda: ("", ""))
    assert route is not None
    return [*route.argv, *[f"-{name}" for name in route.dropped]]


@pytest.mark.parametrize(
    ("program", "argv", "left"),
    [
        ("sbatch", "-M hpc -n2 job.sh -M hpc", "-n2 job.sh -M hpc"),
        ("sbatch", "-n 2 --clusters=hpc job.sh", "-n 2 job.sh"),
        ("sbatch", "--clusters hpc -Jhpc job.sh", "-Jhpc job.sh"),
        ("sbatch", "-HMhpc job.sh", "-H job.sh"),
        ("srun", "-n2 -Mhpc -- hostname -M hpc", "-n2 -- hostname -M hpc"),
        ("squeue", "-j 5 -M hpc -l", "-j 5 -l"),
        ("squeue", "-hM hpc", "-h"),
        ("squeue", "-M hpc,other", "-M hpc,other"),
        ("squeue", "--nosuch -M hpc", "--nosuch -M hpc"),
        ("scontrol", "show job 5 -M hpc", "show job 5"),
        ("sview", "-M hpc", "-M hpc"),
    ],
)
def test_a_cluster_that_only_we_call_so_is_taken_out(program: str, argv: str, left: str) -> None:
    assert sent(program, *argv.split()) == left.split()


def test_a_cluster_that_slurm_calls_so_stays() -> None:
    assert sent("squeue", "-M", "hpc", real_name="hpc") == ["-M", "hpc"]


def test_variables_that_name_it_are_not_passed_on() -> None:
    assert sent("squeue", environ={"SLURM_CLUSTERS": "hpc", "SBATCH_CLUSTERS": "theirs"}) == ["-SLURM_CLUSTERS"]
