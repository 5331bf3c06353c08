"""Steps inside an allocation: layout, refusals, waiting, as measured."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.core.model.job import Job
from shim.core.model.request import JobRequest, StepRequest
from shim.core.placement.step_values import ShareUse, StepError, StepLayout, in_use
from shim.core.placement.steps import step_layout
from tests.core.placement.shapes import shares

UNUSED = (ShareUse(), ShareUse())
WARNING = "Warning: can't run 1 processes on 2 nodes, setting nnodes to 1"
CANNOT = "error: Unable to create step for job 9: "


def two_nodes(*cpus: int, **changes: Any) -> Job:
    """``sbatch -N2 -n4`` on nodes with 3 and 1 CPUs, unless told otherwise."""
    made = shares(*(cpus or (3, 1)), memory_per_cpu=1000)
    return Job(job_id=9, request=JobRequest(min_nodes=2, max_nodes=2, ntasks=4), shares=made).replace(**changes)


def one_node(cpus: int = 4, **options: Any) -> Job:
    """An allocation of one node with 4 GPUs."""
    return Job(job_id=9, request=JobRequest(**options), shares=shares(cpus, gpus=(0, 1, 2, 3)))


def inherited(job: Job, options: dict[str, Any]) -> StepRequest:
    """A step's options over what srun reads from the job's variables: SLURM_NTASKS, SLURM_JOB_NUM_NODES."""
    return StepRequest(**{"ntasks": job.request.ntasks, "min_nodes": len(job.shares), **options})


def lay_out(job: Job, options: dict[str, Any], *running: StepLayout) -> StepLayout:
    return step_layout(inherited(job, options), job, in_use(running, len(job.shares)))


@pytest.mark.parametrize(
    ("options", "nodes", "ranks", "cpus"),
    [
        ({}, "12", [[0, 1, 2], [3]], (3, 1)),
        ({"ntasks": 1}, "1", [[0]], (3,)),
        ({"ntasks": 1, "min_nodes": 1}, "1", [[0]], (3,)),
        ({"ntasks": 2}, "12", [[0], [1]], (3, 1)),
        ({"ntasks": 1, "min_nodes": 1, "node_list": "n2"}, "2", [[0]], (1,)),
        ({"ntasks": 1, "node_list": "n2"}, "2", [[0]], (1,)),
        ({"node_list": "n2"}, "12", [[0, 1, 2], [3]], (3, 1)),
        ({"ntasks": 1, "min_nodes": 1, "relative": 1}, "2", [[0]], (1,)),
        ({"ntasks": 1, "exclude": "n1"}, "2", [[0]], (1,)),
        ({"ntasks": 1, "overlap": True}, "1", [[0]], (3,)),
        ({"ntasks": 6, "overcommit": True}, "12", [[0, 1, 2, 3], [4, 5]], (3, 1)),
        ({"ntasks": 6, "overcommit": True, "min_nodes": 1}, "1", [[0, 1, 2, 3, 4, 5]], (3,)),
        ({"ntasks": 2, "cpus_per_task": 2}, "12", [[0], [1]], (2, 1)),
        ({"distribution": "cyclic"}, "12", [[0, 2, 3], [1]], (3, 1)),
        ({"distribution": "arbitrary", "node_list": "n2,n1,n1,n1"}, "12", [[1, 2, 3], [0]], (3, 1)),
        ({"min_nodes": 2, "max_nodes": 3}, "12", [[0, 1, 2], [3]], (3, 1)),
        ({"min_nodes": 1, "max_nodes": 2, "ntasks": 1}, "1", [[0]], (3,)),
        ({"min_nodes": None, "ntasks": None}, "12", [[0], [1]], (3, 1)),
        ({"min_nodes": None, "ntasks": 1}, "1", [[0]], (3,)),
        ({"ntasks": 1, "exact": True}, "1", [[0]], (1,)),
        ({"ntasks": 3, "exact": True}, "12", [[0, 1], [2]], (2, 1)),
        ({"ntasks": 1, "exclusive": True, "mem_per_node": 500}, "1", [[0]], (1,)),
        ({"ntasks": 1, "mem_per_node": 3000}, "1", [[0]], (3,)),  # exactly the job's memory
        ({"ntasks": 1, "cpus_per_task": 3, "mem_per_cpu": 1000}, "1", [[0]], (3,)),
        ({"ntasks": 1, "cpus_per_task": 2, "overcommit": True}, "1", [[0]], (3,)),
        ({"ntasks": None, "cpus_per_task": 1}, "12", [[0, 1, 2], [3]], (3, 1)),
        ({"min_nodes": 1, "ntasks": None, "cpus_per_task": 2}, "1", [[0]], (2,)),
        ({"min_nodes": None, "ntasks": None, "relative": 1}, "2", [[0]], (1,)),
        ({"min_nodes": 1, "max_nodes": 2, "ntasks": 4}, "12", [[0, 1, 2], [3]], (3, 1)),
    ],
)
def test_measured_steps(options, nodes, ranks, cpus):
    layout = lay_out(two_nodes(), options)
    assert layout.names == tuple(f"n{number}" for number in nodes)
    assert [list(own) for own in layout.ranks] == ranks
    assert layout.cpus == cpus
    assert layout.ntasks == sum(map(len, ranks))


@pytest.mark.parametrize(
    ("options", "lines"),
    [
        ({"min_nodes": 1}, [CANNOT + "More processors requested than permitted"]),
        ({"min_nodes": 1, "relative": 1}, [CANNOT + "More processors requested than permitted"]),
        ({"ntasks": 5}, [CANNOT + "More processors requested than permitted"]),
        ({"ntasks": 3, "cpus_per_task": 2}, [CANNOT + "More processors requested than permitted"]),
        ({"min_nodes": 3}, ["error: Only allocated 2 nodes asked for 3"]),
        ({"node_list": "n9"}, [CANNOT + "Requested node configuration is not available"]),
        ({"exclude": "n1", "min_nodes": 1}, [CANNOT + "Requested node configuration is not available"]),
        (
            {"exclude": "n1"},
            ["error: Only allocated 1 nodes asked for 2", "error: Are required nodes explicitly excluded?"],
        ),
        (
            {"exclude": "n1", "min_nodes": 3},
            ["error: Only allocated 1 nodes asked for 3", "error: Are required nodes explicitly excluded?"],
        ),
        (
            {"exclude": "n1", "node_list": "n1"},
            ["error: Requested node n1 is also in the excluded list.", "error: Job not submitted."],
        ),
        ({"exclude": "n[1-2]", "min_nodes": 3}, ["error: Hostlist is empty!  Can't run job."]),
        ({"exclude": "n[1-2]", "ntasks": 1}, ["error: Hostlist is empty!  Can't run job."]),
        (
            {"relative": 1},
            [
                "error: --relative and SLURM_JOB_NUM_NODES option incompatible with count of allocated nodes (1+2>2)",
            ],
        ),
        (
            {"relative": 2, "min_nodes": 1, "ntasks": 1},
            ["error: --relative and --nodes option incompatible with count of allocated nodes (2+1>2)"],
        ),
        ({"ntasks": 1, "mem_per_node": 3001}, [CANNOT + "Memory required by task is not available"]),
        ({"mem_per_node": 99999}, [CANNOT + "Memory required by task is not available"]),
        (
            {"gres": "gpu:1"},
            [
                "error: Step requested GRES but job doesn't have GRES",
                CANNOT + "Invalid generic resource (gres) specification",
            ],
        ),
        *(
            (
                {option: 1},
                [
                    "error: Step requested GRES but job doesn't have GRES",
                    CANNOT + "Invalid generic resource (gres) specification",
                ],
            )
            for option in ("cpus_per_gpu", "mem_per_gpu")
        ),
    ],
)
def test_refusals(options, lines):
    with pytest.raises(StepError) as refused:
        lay_out(two_nodes(), options)
    assert list(refused.value.lines) == lines
    assert not refused.value.retry


@pytest.mark.parametrize(
    ("options", "tasks"),
    [
        ({"ntasks": 1, "ntasks_per_gpu": 1}, 4),
        ({"ntasks": None, "ntasks_per_gpu": 1, "gpus": "2"}, 2),
        ({"ntasks": 1, "ntasks_per_gpu": 2, "gpus_per_node": "1"}, 2),
        ({"ntasks": 3, "ntasks_per_gpu": 1, "gres": "gpu:2"}, 3),
    ],
)
def test_tasks_are_at_least_those_of_the_gpus(options, tasks):
    assert lay_out(one_node(4, gres="gpu:4"), options).ntasks == tasks


def test_more_gpus_for_a_socket_than_a_node_has_are_refused():
    assert lay_out(one_node(4, gres="gpu:4"), {"ntasks": 1, "gpus_per_socket": "4"}).gpus == ((0, 1, 2, 3),)
    with pytest.raises(StepError, match="Invalid generic resource"):
        lay_out(one_node(4, gres="gpu:4"), {"ntasks": 1, "gpus_per_socket": "5"})


def test_a_step_waits_for_nodes_with_its_features():
    nodes = {"n1": ("slow",), "n2": ("fast", "new")}

    def on(constraint: str) -> tuple[str, ...]:
        job = two_nodes(3, 3)
        step = StepRequest(ntasks=1, min_nodes=1, constraint=constraint)
        return step_layout(step, job, in_use((), 2), nodes).names

    assert (on("fast&new"), on("slow"), on("[fast|none]")) == (("n2",), ("n1",), ("n2",))
    for text in ("none", "fast&slow", "[fast"):
        with pytest.raises(StepError) as refused:
            on(text)
        assert (refused.value.retry, refused.value.why) == (True, "Requested nodes are busy")


@pytest.mark.parametrize(
    ("options", "nodes", "warned"),
    [
        ({"ntasks": 1}, 2, True),
        ({"ntasks": 1, "min_nodes": 1}, 1, False),
        ({"ntasks": 1, "min_nodes": None}, 2, False),
        ({}, 2, False),
    ],
)
def test_fewer_tasks_than_nodes_is_said_when_nodes_were_asked_for(options, nodes, warned):
    assert lay_out(two_nodes(), options).warnings == ((WARNING,) if warned else ())


@pytest.mark.parametrize(
    ("per_node", "ntasks", "honoured"),
    [(3, 4, False), (3, 2, True), (3, 3, True), (3, 6, True), (1, 6, False), (1, 2, True), (2, 5, True), (1, 3, True)],
)
def test_tasks_per_node_that_does_not_agree_is_ignored(per_node, ntasks, honoured):
    layout = lay_out(two_nodes(3, 3), {"ntasks_per_node": per_node, "ntasks": ntasks})
    expected = (
        f"Warning: can't honor --ntasks-per-node set to {per_node} which doesn't match the requested tasks {ntasks} "
        "with the number of requested nodes 2. Ignoring --ntasks-per-node."
    )
    assert layout.warnings == (() if honoured else (expected,))
    alone = lay_out(two_nodes(3, 3), {"ntasks_per_node": per_node, "ntasks": ntasks, "min_nodes": None})
    assert alone.warnings == ()  # srun's own allocation was made with it


def test_hosts_are_the_names_inside_the_job():
    job = two_nodes()
    job = job.replace(shares=tuple(share.replace(host=f"127.0.0.{share.name[1]}") for share in job.shares))
    assert lay_out(job, {}).names == ("127.0.0.1", "127.0.0.2")
    assert lay_out(job, {"ntasks": 1, "node_list": "127.0.0.2"}).nodes == (1,)
    assert lay_out(job, {"ntasks": 1, "node_list": "n2"}).nodes == (1,)


@pytest.mark.parametrize(
    ("distribution", "ntasks", "expected"),
    [
        (None, 4, ("block", None)),
        (None, 2, ("cyclic", None)),
        ("plane=2", 4, ("plane", 2)),
        ("block:cyclic", 2, ("block:cyclic", None)),
        ("*", 4, ("block", None)),
    ],
)
def test_distribution_as_the_variables_show_it(distribution, ntasks, expected):
    layout = lay_out(two_nodes(), {"distribution": distribution, "ntasks": ntasks})
    assert (layout.distribution, layout.plane_size) == expected


class TestTogether:
    """Steps beside running ones."""

    def waits(self, job: Job, options: dict[str, Any], *running: StepLayout) -> bool:
        try:
            lay_out(job, options, *running)
        except StepError as refused:
            assert refused.retry
            assert refused.lines == (CANNOT + "Requested nodes are busy",)
            return True
        return False

    @pytest.mark.parametrize("memory", [0, 1000], ids=["cpus", "memory"])
    def test_a_step_takes_its_nodes_whole(self, memory):
        job = Job(job_id=9, request=JobRequest(ntasks=2), shares=shares(2, memory_per_cpu=memory))
        first = lay_out(job, {"ntasks": 1})
        assert self.waits(job, {"ntasks": 1}, first)
        assert self.waits(job, {"ntasks": 1, "exact": True}, first)
        assert not self.waits(job, {"ntasks": 2, "overlap": True}, first)

    @pytest.mark.parametrize("memory", [0, 1000], ids=["cpus", "memory"])
    def test_exact_steps_run_together_and_a_whole_one_waits_for_them(self, memory):
        job = Job(job_id=9, request=JobRequest(ntasks=3), shares=shares(3, memory_per_cpu=memory))
        exact = {"ntasks": 1, "exact": True}
        first = lay_out(job, exact)
        assert not self.waits(job, exact, first)
        assert not self.waits(job, {"ntasks": 2, "exclusive": True}, first)
        assert not self.waits(job, {"ntasks": 1, "cpus_per_task": 2}, first)
        assert self.waits(job, {"ntasks": 3, "exact": True}, first)
        assert self.waits(job, {"ntasks": 1}, first)

    def test_steps_without_memory_share_what_is_left(self):
        job = two_nodes(4, 4).replace(shares=shares(4, 4))
        first = lay_out(job, {"ntasks": 3, "min_nodes": 1, "exact": True})
        assert (first.names, first.cpus) == (("n1",), (3,))
        assert lay_out(job, {"ntasks": 1, "node_list": "n1", "exact": True}, first).cpus == (1,)
        assert self.waits(job, {"ntasks": 2, "min_nodes": 1, "node_list": "n1", "exact": True}, first)
        assert self.waits(job, {"ntasks": 1, "min_nodes": 1, "node_list": "n1"}, first)
        assert lay_out(job, {"ntasks": 2, "min_nodes": 1, "node_list": "n1", "exact": True, "overlap": True}, first)

    def test_nodes_that_the_environment_still_counts(self):
        """SLURM_JOB_NUM_NODES is 4 yet, of a job that has given up two of them."""
        job = two_nodes()
        conflict = "error: SLURM_JOB_NUM_NODES environment variable conflicts with allocated node count (4 != 2)."
        for ntasks, said in ((1, False), (2, False), (3, True), (None, True)):
            step = StepRequest(min_nodes=4, nodes_inherited=True, ntasks=ntasks)
            layout = step_layout(step, job, UNUSED)
            assert (conflict in layout.warnings) == said
            assert len(layout.names) == min(ntasks or 2, 2)

    def test_overlapping_steps_hold_nothing(self):
        job = one_node()
        first = lay_out(job, {"ntasks": 1, "overlap": True})
        assert not self.waits(job, {"ntasks": 4}, first)

    def test_idle_nodes_are_preferred(self):
        job = two_nodes(3, 3)
        one = {"ntasks": 1, "min_nodes": 1}
        first = lay_out(job, {**one, "exact": True})
        assert first.names == ("n1",)
        for options in ({}, {"exact": True}, {"overlap": True}):
            assert lay_out(job, {**one, **options}, first).names == ("n2",)
        second = lay_out(job, one, first)
        assert self.waits(job, one, first, second)
        assert lay_out(job, {"ntasks": 3, "min_nodes": 2, "exact": True}, first).ranks == ((0, 1), (2,))

    def test_memory_of_a_job_that_asked_per_node_is_taken_whole(self):
        share = shares(2)[0].replace(memory=4000)
        job = Job(job_id=9, request=JobRequest(ntasks=2, mem_per_node=4000), shares=(share,))
        exact = {"ntasks": 1, "exact": True}
        first = lay_out(job, exact)
        assert first.memory == (4000,)
        assert self.waits(job, exact, first)
        small = lay_out(job, {**exact, "mem_per_node": 500})
        assert not self.waits(job, {**exact, "mem_per_node": 500}, small)

    def test_gpus_are_taken_whole_unless_less_is_asked(self):
        job = one_node(ntasks=4)
        exact = {"ntasks": 1, "exact": True}
        first = lay_out(job, exact)
        assert first.gpus == ((0, 1, 2, 3),)
        assert self.waits(job, exact, first)
        assert self.waits(job, {**exact, "gres": "gpu:1"}, first)
        assert not self.waits(job, {**exact, "gres": "none"}, first)
        first = lay_out(job, {**exact, "gres": "gpu:1"})
        second = lay_out(job, {**exact, "gpus": "1"}, first)
        third = lay_out(job, {**exact, "gpus_per_task": "1"}, first, second)
        assert [layout.gpus for layout in (first, second, third)] == [((0,),), ((1,),), ((2,),)]
        assert lay_out(job, {"ntasks": 1, "overlap": True, "gres": "gpu:2"}, first).gpus == ((0, 1),)


class TestGpus:
    """The GPUs of a step on the node of an allocation with four."""

    @pytest.mark.parametrize(
        ("options", "node", "tasks"),
        [
            ({}, (0, 1, 2, 3), ()),
            ({"gres": "gpu:3"}, (0, 1, 2), ()),
            ({"gres": "none"}, (), ()),
            ({"gres": "gpu:0"}, (), ()),
            ({"gpus": "3"}, (0, 1, 2), ()),
            ({"gpus_per_node": "1"}, (0,), ()),
            ({"gpus_per_task": "1"}, (0, 1), ((0,), (1,))),
            ({"gpus_per_task": "2"}, (0, 1, 2, 3), ((0, 1), (2, 3))),
        ],
    )
    def test_share(self, options, node, tasks):
        layout = lay_out(one_node(), {"ntasks": 2, **options})
        assert layout.gpus == (node,)
        assert layout.task_gpus == ((tasks,) if tasks else ())

    def test_what_the_variables_repeat_of_the_job_means_all(self):
        job = Job(job_id=9, request=JobRequest(gpus="8"), shares=shares(1, 1, gpus=(0, 1, 2, 3)))
        assert lay_out(job, {"ntasks": 1, "gpus": "8"}).gpus == ((0, 1, 2, 3),)

    @pytest.mark.parametrize(
        ("options", "node", "tasks"),
        [
            ({"gpus": "1"}, (0, 1, 2, 3), ()),
            ({"gpus": "0"}, (0, 1, 2, 3), ()),
            ({"gpus": "1", "gres": "gpu:1"}, (0,), ()),
            ({"gpus": "3", "gpus_per_node": "1"}, (0,), ()),
            ({"gpus_per_task": "1"}, (0, 1, 2, 3), ((0,), (1,))),
            ({"gpus_per_task": "1", "ntasks": 1}, (0, 1, 2, 3), ((0, 1, 2, 3),)),
        ],
    )
    def test_the_jobs_own_number_of_each_node_decides_before_the_steps_total(self, options, node, tasks):
        job = Job(job_id=9, request=JobRequest(gpus_per_node="4"), shares=shares(4, gpus=(0, 1, 2, 3)))
        layout = lay_out(job, {"ntasks": 2, "gpus_per_node": "4", **options})
        assert layout.gpus == (node,)
        assert layout.task_gpus == ((tasks,) if tasks else ())

    @pytest.mark.parametrize("each", ["4", None])
    def test_fewer_gpus_than_nodes(self, each):
        request = JobRequest(gpus_per_node="4") if each else JobRequest(gpus="8")
        job = Job(job_id=9, request=request, shares=shares(1, 1, gpus=(0, 1, 2, 3)))
        with pytest.raises(StepError) as caught:
            lay_out(job, {"ntasks": 2, "gpus": "1", "gpus_per_node": each})
        assert list(caught.value.lines) == [
            "error: Step requested gres=gpu:1 is less than the requested min nodes=2",
            CANNOT + "Invalid generic resource (gres) specification",
        ]

    def test_total_is_spread_over_nodes(self):
        job = Job(job_id=9, request=JobRequest(gpus="8"), shares=shares(1, 1, gpus=(0, 1, 2, 3)))
        assert lay_out(job, {"ntasks": 2, "gpus": "4"}).gpus == ((0, 1, 2), (0,))

    @pytest.mark.parametrize(
        ("options", "lines"),
        [
            (
                {"gres": "gpu:5"},
                [
                    "error: Step requested gres_per_node=gpu:5 is more than the job's gres_per_node=gpu:4",
                    CANNOT + "Invalid generic resource (gres) specification",
                ],
            ),
            ({"gpus": "9"}, [CANNOT + "Invalid generic resource (gres) specification"]),
            ({"gpus_per_task": "3"}, [CANNOT + "Insufficient GRES available in allocation"]),
            (
                {"gres": "gpu:a100:1"},
                [
                    "error: Step requested GRES (gpu:a100) not found in the job",
                    CANNOT + "Invalid generic resource (gres) specification",
                ],
            ),
        ],
    )
    def test_refusals(self, options, lines):
        with pytest.raises(StepError) as refused:
            lay_out(one_node(), {"ntasks": 2, **options})
        assert list(refused.value.lines) == lines

    def test_tasks_per_gpu_makes_tasks(self):
        assert lay_out(one_node(), {"ntasks": None, "ntasks_per_gpu": 1}).ntasks == 4


def optional(values: st.SearchStrategy) -> st.SearchStrategy:
    return st.none() | values


steps = st.builds(
    StepRequest,
    ntasks=optional(st.integers(1, 9)),
    min_nodes=optional(st.integers(1, 4)),
    max_nodes=optional(st.integers(1, 4)),
    cpus_per_task=optional(st.integers(1, 3)),
    ntasks_per_node=optional(st.integers(1, 4)),
    node_list=optional(st.sampled_from(["n1", "n[2-3]", "n9", "n3,n1,n3"])),
    exclude=optional(st.sampled_from(["n1", "n[1-3]"])),
    relative=optional(st.integers(0, 3)),
    distribution=optional(st.sampled_from(["cyclic", "plane=2", "arbitrary"])),
    mem_per_node=optional(st.integers(0, 3000)),
    gres=optional(st.sampled_from(["none", "gpu:1", "gpu:3"])),
    gpus=optional(st.sampled_from(["1", "4"])),
    gpus_per_task=optional(st.just("1")),
    exact=st.booleans(),
    overlap=st.booleans(),
    overcommit=st.booleans(),
)


@given(st.lists(steps, min_size=1, max_size=5))
def test_steps_never_hold_more_than_the_job_has(wanted):
    job = Job(job_id=9, request=JobRequest(), shares=shares(4, 2, 1, memory_per_cpu=1000, gpus=(0, 1, 2)))
    running: list[StepLayout] = []
    for step in wanted:
        try:
            layout = step_layout(step, job, in_use(running, 3))
        except StepError as refused:
            assert refused.lines
            continue
        assert sorted(rank for own in layout.ranks for rank in own) == list(range(layout.ntasks))
        assert list(layout.nodes) == sorted(set(layout.nodes))
        running.append(layout)
        for use, share in zip(in_use(running, 3), job.shares, strict=True):
            assert use.cpus <= share.cpus
            assert use.memory <= share.memory
            assert len(use.gpus) == len(set(use.gpus))
            assert set(use.gpus) <= set(share.gpus)


def test_an_arbitrary_list_names_the_node_of_each_task():
    wrong = {"distribution": "arbitrary", "node_list": "n2,n1", "ntasks": 3}
    with pytest.raises(StepError) as refused:
        lay_out(two_nodes(), wrong)
    assert refused.value.lines == ("error: You asked for 3 tasks but hostlist specified 2 nodes",)
    with pytest.raises(StepError) as refused:
        lay_out(two_nodes(request=JobRequest(kind="run")), wrong)
    assert refused.value.lines == (CANNOT + "Unspecified error",)


def of_types(*types: tuple[str, ...], **options: Any) -> Job:
    """A job with the GPUs of these types on each of its nodes."""
    made = tuple(
        share.replace(gpus=tuple(range(len(own))), gpu_types=own)
        for share, own in zip(shares(*(4 for _ in types)), types)
    )
    return Job(job_id=9, request=JobRequest(**options), shares=made)


def test_a_step_may_want_exactly_the_gpus_of_its_job():
    job = Job(job_id=9, request=JobRequest(), shares=shares(4, 4, gpus=(0, 1, 2, 3)))
    everything = ((0, 1, 2, 3), (0, 1, 2, 3))
    assert lay_out(job, {"ntasks": 2, "gpus": "8"}).gpus == everything
    assert lay_out(job, {"ntasks": 2, "gres": "gpu:4"}).gpus == everything
    assert lay_out(job, {"ntasks": 2, "gpus_per_task": "4"}).gpus == everything


def test_a_step_on_one_node_gets_no_more_gpus_than_a_node_has():
    job = Job(job_id=9, request=JobRequest(), shares=shares(4, 4, gpus=(0, 1, 2, 3)))
    assert lay_out(job, {"ntasks": 1, "min_nodes": 1, "max_nodes": 1, "gpus": "4"}).gpus == ((0, 1, 2, 3),)
    with pytest.raises(StepError, match="Invalid generic resource"):
        lay_out(job, {"ntasks": 1, "min_nodes": 1, "max_nodes": 1, "gpus": "5"})


def test_gpus_of_types():
    job = of_types(("a100", "a100", "v100"), ("v100",))
    one = {"ntasks": 1, "min_nodes": 1, "max_nodes": 1, "node_list": "n1"}
    assert lay_out(job, {**one, "gres": "gpu:v100:1"}).gpus == ((2,),)
    assert lay_out(job, {**one, "gres": "gpu:1"}).gpus == ((0,),)  # of any type
    assert lay_out(job, {**one, "gres": "gpu:3"}).gpus == ((0, 1, 2),)  # the node with the most counts
    with pytest.raises(StepError) as refused:
        lay_out(job, {**one, "gres": "gpu:h100:1"})
    assert refused.value.lines[0] == "error: Step requested GRES (gpu:h100) not found in the job"


@pytest.mark.parametrize(
    ("options", "tasks"),
    [
        ({"gpus_per_node": "2"}, 4),  # two on each of two nodes
        ({"gpus": "2"}, 2),
        ({"gres": "gpu:3"}, 6),
        ({}, 8),  # all of the job's
    ],
)
def test_ntasks_per_gpu_counts_the_gpus_of_all_nodes(options, tasks):
    job = Job(job_id=9, request=JobRequest(), shares=shares(8, 8, gpus=(0, 1, 2, 3)))
    assert lay_out(job, {"ntasks": None, "ntasks_per_gpu": 1, **options}).ntasks == tasks


def test_gpus_of_tasks_wait_for_those_of_other_steps():
    job = Job(job_id=9, request=JobRequest(), shares=shares(4, gpus=(0, 1, 2, 3)))
    first = lay_out(job, {"ntasks": 1, "exact": True, "gpus_per_task": "3"})
    with pytest.raises(StepError) as held:
        lay_out(job, {"ntasks": 2, "exact": True, "gpus_per_task": "1"}, first)
    assert held.value.retry


def test_tasks_of_each_node_make_the_steps_tasks():
    layout = lay_out(two_nodes(4, 4), {"ntasks": None, "ntasks_per_node": 2})
    assert [list(own) for own in layout.ranks] == [[0, 1], [2, 3]]


def test_a_node_takes_no_more_tasks_than_its_cpus_are_enough_for() -> None:
    layout = lay_out(two_nodes(5, 9), {"ntasks": 4, "cpus_per_task": 3})
    assert (layout.ranks, layout.cpus) == (((0,), (1, 2, 3)), (3, 9))


def test_memory_of_a_step_by_its_cpus() -> None:
    assert lay_out(two_nodes(), {"ntasks": 2, "min_nodes": 1, "exact": True, "mem_per_cpu": 500}).memory == (1000,)
    assert lay_out(two_nodes(), {"ntasks": 1, "exact": True}).memory == (1000,)  # its part of the job's
    with pytest.raises(StepError) as caught:
        lay_out(two_nodes(), {"ntasks": 1, "cpus_per_task": 2, "mem_per_cpu": 2000})
    assert caught.value.lines == (CANNOT + "Memory required by task is not available",)


def test_a_step_waits_where_one_of_its_nodes_has_no_memory_left() -> None:
    job = two_nodes()
    first = lay_out(job, {"ntasks": 1, "min_nodes": 1, "node_list": "n1", "exact": True, "mem_per_node": 3000})
    with pytest.raises(StepError) as caught:
        lay_out(job, {"ntasks": 2, "exact": True, "mem_per_node": 500}, first)
    assert caught.value.retry


def test_a_node_is_excluded_by_either_of_its_names() -> None:
    job = two_nodes()
    job = job.replace(shares=tuple(share.replace(host=f"host-{share.name}") for share in job.shares))
    for name in ("n1", "host-n1"):
        assert lay_out(job, {"ntasks": 1, "exclude": name}).names == ("host-n2",)


def test_steps_are_counted_on_each_node_also_where_they_hold_nothing() -> None:
    job = two_nodes()
    over = lay_out(job, {"overlap": True})
    used = in_use([over, over, lay_out(job, {})], 2)
    assert [(one.steps, one.cpus) for one in used] == [(3, 3), (3, 1)]


@pytest.mark.parametrize(
    ("binding", "gpus"),
    [
        ("map_gpu:2,0", [[2], [0], [2]]),
        ("map_gpu:0*2,3", [[0], [0], [3]]),
        ("map_gpu:10,11", [[0], [0], [0]]),  # a GPU that is not there: the first
        ("map_gpu:x,-1,1", [[1], [1], [1]]),  # what is no number is left out
        ("map_gpu:", [[0], [0], [0]]),
        ("mask_gpu:3,c,10", [[0, 1], [2, 3], [0]]),
        ("verbose,mask_gpu:0x8", [[3], [3], [3]]),
        ("single:2", [[0], [0], [1]]),
        ("single:0", [[0], [1], [2]]),
        ("per_task:1", [[0], [1], [2]]),
        ("per_task:3", [[0, 1, 2], [3], [0]]),
    ],
)
def test_which_gpus_a_task_sees(binding: str, gpus: list[list[int]]) -> None:
    layout = lay_out(one_node(), {"ntasks": 3, "gpu_bind": binding})
    assert [[list(own) for own in node] for node in layout.task_gpus] == [gpus]


def test_gpus_go_round_where_there_are_more_tasks() -> None:
    layout = lay_out(one_node(), {"ntasks": 4, "gres": "gpu:2", "gpu_bind": "single:1"})
    assert layout.task_gpus == (((0,), (1,), (0,), (1,)),)


def test_a_task_alone_on_its_node_is_bound_only_where_that_is_asked_for() -> None:
    assert lay_out(one_node(), {"ntasks": 1, "gpus_per_task": "2"}).task_gpus == (((0, 1),),)
    assert lay_out(one_node(), {"ntasks": 1, "gpus_per_task": "2", "gpu_bind": "single:1"}).task_gpus == (((0,),),)
    assert lay_out(one_node(), {"ntasks": 1, "gpu_bind": "map_gpu:3"}).task_gpus == (((3,),),)


def test_a_step_that_asks_for_no_gpus_has_none() -> None:
    assert lay_out(one_node(), {"ntasks": 1, "gpus": "0"}).gpus == ((),)
