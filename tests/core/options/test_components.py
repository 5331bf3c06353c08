"""Several components on one command line or in one script: where each begins, and what it takes over from the one before.

What is expected here is what sbatch and srun of Slurm 22.05.8 say with -v.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.core.errors import ShimError, Unsupported
from shim.core.options import srun_salloc
from shim.core.options.batch import command_line, packed, settle
from shim.core.options.sources import Settings
from shim.core.options.support import refuse_het
from shim.core.options.values import Context


def no_file(path: str) -> str:
    raise FileNotFoundError(2, "No such file or directory", path)


CONTEXT = Context(0.0, 1001, no_file)


def scripted(header: str, line: str = "", **environ: str) -> list[Settings]:
    """The components of a script with these directives (lines by ``|``) and sbatch's own options."""
    text = "#!/bin/bash\n" + "".join(f"#SBATCH {one}\n" for one in header.split("|"))
    found, _ = command_line(line.split(), CONTEXT)
    return settle(CONTEXT, found, environ, text, "job.sh", lambda settings: settings)


def shown(components: list[Settings]) -> list[dict[str, object]]:
    return [dict(sorted(one.texts.items())) for one in components]


@pytest.mark.parametrize(
    ("header", "components"),
    [
        ("-n4|hetjob|-c2", [{"ntasks": "4"}, {"cpus-per-task": "2"}]),
        ("-n4|HETJOB|-c2", [{"ntasks": "4"}, {"cpus-per-task": "2"}]),
        ("-n4|packjob|packjob|-n5", [{"ntasks": "4"}, {}, {"ntasks": "5"}]),
        ("hetjob|-n4", [{}, {"ntasks": "4"}]),
        ("-n4|hetjob", [{"ntasks": "4"}, {}]),
        ("-n4|  hetjob  # comment|-n5", [{"ntasks": "4"}, {"ntasks": "5"}]),
        # What follows the word on its line is not read.
        ("-n4|hetjob -n5|-c2", [{"ntasks": "4"}, {"cpus-per-task": "2"}]),
        ('-n4|hetjob "foo|-c2', [{"ntasks": "4"}, {"cpus-per-task": "2"}]),
        # Behind another word it separates nothing, but still ends its line.
        ("-n1 hetjob -n2|-c3", [{"ntasks": "1", "cpus-per-task": "3"}]),
        ("-n4 # hetjob|-c2", [{"ntasks": "4", "cpus-per-task": "2"}]),
        ("-J myhetjob|--comment=hetjob", [{"job-name": "myhetjob", "comment": "hetjob"}]),
        ('-J "a hetjob b" -n1', [{"job-name": "a hetjob b", "ntasks": "1"}]),
        ("-n4 --comment hetjob -N1|-c2", [{"ntasks": "4", "comment": "-c2"}]),
    ],
)
def test_directives(header: str, components: list[dict[str, object]]) -> None:
    assert shown(scripted(header)) == [dict(sorted(one.items())) for one in components]


@pytest.mark.parametrize(
    ("header", "why"),
    [
        ('-n4|"hetjob"', "Invalid directive found in batch script: hetjob"),
        ("hetjobs", "Invalid directive found in batch script: hetjobs"),
        ("-n4|hetjob|--nosuch", "unrecognized option '--nosuch'"),
        ("-n4 : -n5", "Unexpected `:`"),
    ],
)
def test_directives_that_are_none(header: str, why: str) -> None:
    with pytest.raises(ShimError, match=why):
        scripted(header)


def test_the_first_component_is_told_before_a_mistake_in_the_next() -> None:
    seen: list[Settings] = []

    def see(settings: Settings) -> Settings:
        seen.append(settings)
        return settings

    text = "#!/bin/bash\n#SBATCH -n1\n#SBATCH hetjob\n#SBATCH --nosuch\n"
    with pytest.raises(ShimError, match="unrecognized option '--nosuch'"):
        settle(CONTEXT, [()], {"SBATCH_PARTITION": "gpu"}, text, "job.sh", see)
    assert [(part.get("ntasks"), part.get("partition")) for part in seen] == [(1, "gpu")]


@pytest.mark.parametrize(
    "option",
    [
        *("-x n3", "--mem=100", "-t 5", "-J foo", "-A acc", "-q q", "-o out", "-e err", "-i in", "--open-mode=append"),
        *("--export=ALL,A=1", "-D /tmp", "--comment=c", "--nice=3", "--reservation=r", "-d singleton", "--hold"),
        *("--begin=now+1hour", "--signal=B:10@60", "--hint=nomultithread", "--requeue", "--no-kill", "--wckey=w"),
        *("--prefer=x", "--priority=5", "--time-min=3", "--wait-all-nodes=1", "--array=1", "--wait", "--parsable"),
        *("--get-user-env", "--clusters=c", "--propagate=ALL", "--profile=all", "-v"),
    ],
)
def test_what_carries_over(option: str) -> None:
    first, second = scripted("-n1|hetjob|-n2", f"{option} : -c1")
    name = next(name for name in first.texts if name != "ntasks")
    assert second.texts[name] == first.texts[name]
    assert second.get(name) == first.get(name)


@pytest.mark.parametrize(
    "option",
    [
        *("-c2", "-N2", "--ntasks-per-node=2", "-p debug", "-w n2", "-C fast", "--gres=gpu:1", "--mail-type=END"),
        *("--mail-user=me", "-L lic", "--exclusive", "-s", "--tmp=5", "--mincpus=2", "-B 1:1:1", "-m block"),
        *("--contiguous", "--switches=1", "--spread-job", "--use-min-nodes", "--cpu-freq=low", "--network=n"),
        *("--gpus=2", "--gpus-per-node=1", "--gpus-per-task=1", "--gpus-per-socket=1", "--cpus-per-gpu=2"),
        *("--mem-per-cpu=10", "--mem-per-gpu=3", "--ntasks-per-core=1", "--overcommit", "--threads-per-core=1"),
    ],
)
def test_what_starts_anew(option: str) -> None:
    _, second = scripted("hetjob", f"{option} : --comment=x")
    assert shown([second]) == [{"comment": "x"}]


@pytest.mark.parametrize(
    ("line", "tasks", "words"),
    [
        ("-n1 : -n2 job.sh a b", [1, 2], ["job.sh", "a", "b"]),
        ("-n1 : -n2 : job.sh", [1, 2, None], ["job.sh"]),
        (": -n2 job.sh", [None, 2], ["job.sh"]),
        # A colon behind the script is dropped, and begins no component.
        ("-n1 job.sh a : -n2", [1], ["job.sh", "a", "-n2"]),
        ("-n1 : -n2 job.sh a : b", [1, 2], ["job.sh", "a", "b"]),
    ],
)
def test_command_lines(line: str, tasks: list[int | None], words: list[str]) -> None:
    found, left = command_line(line.split(), CONTEXT)
    settled = settle(CONTEXT, found, {}, None, "wrap", lambda settings: settings)
    assert [one.get("ntasks") for one in settled] == tasks
    assert left == words


def test_every_value_of_the_command_line_is_read_before_the_script() -> None:
    with pytest.raises(ShimError, match="Invalid --time specification"):
        command_line(["-n1", ":", "-t", "xx", "nosuch.sh"], CONTEXT)


@pytest.mark.parametrize(
    ("line", "tasks"),
    [("", [1, 2, 3]), ("-n5", [5, 5, 5]), ("-n5 : -n6", [5, 6, 6]), ("-n5 : -n6 : -n7 : -n8", [5, 6, 7, 8])],
)
def test_the_command_line_over_the_script(line: str, tasks: list[int]) -> None:
    """Its last component counts for all that the script has beyond; what it has beyond takes over the script's last."""
    settled = scripted("-n1 -J x|hetjob|-n2|hetjob|-n3 -J y", line)
    assert [one.get("ntasks") for one in settled] == tasks
    assert [one.get("job-name") for one in settled] == ["x", "x", "y", "y"][: len(tasks)]


def test_the_first_component_begins_with_what_the_whole_command_line_carries() -> None:
    assert [one.get("time") for one in scripted("-n1", "-n1 : -t 5")] == [5, 5]
    assert [one.get("time") for one in scripted("-n1", "-t 3 : -t 5")] == [3, 5]
    assert [one.get("time") for one in scripted("-t 9|hetjob|-n2", "-n1 : -t 5")] == [9, 5]
    assert [one.get("partition") for one in scripted("-n1", "-n1 : -p gpu")] == [None, "gpu"]
    first, second = srun_salloc.settle("srun", ["-n1", "a", ":", "-t", "5", "b"], {}, CONTEXT)
    assert (first.settings.get("time"), second.settings.get("time")) == (None, 5)


def test_verbosity_counts_once() -> None:
    assert [one.get("verbose") for one in scripted("-n1|hetjob|-n2", "-vv")] == [2, 2]
    assert [one.get("verbose") for one in scripted("-n1|hetjob|-n2", "-vv : -n1")] == [2, 2]


def test_the_old_word_is_warned_of() -> None:
    assert packed("#!/bin/sh\n#SBATCH -n1\n#SBATCH PackJob\n")
    assert not packed("#!/bin/sh\n#SBATCH -J packjob\n#SBATCH hetjob\ntrue # packjob\n")


def asked(command: str, line: str, **environ: str) -> list[tuple[int, object, list[str]]]:
    return [
        (one.group, one.settings.get("ntasks"), one.words)
        for one in srun_salloc.settle(command, line.split(), environ, CONTEXT)
    ]


@pytest.mark.parametrize(
    ("command", "line", "components"),
    [
        ("srun", "-n1 a x : -n2 b", [(0, 1, ["a", "x"]), (1, 2, ["b"])]),
        ("srun", "-n1 : b", [(0, 1, ["b"]), (1, None, ["b"])]),
        ("srun", "a : -n2", [(0, None, ["a"]), (1, 2, [])]),
        ("srun", "--het-group=0-1,3 a", [(0, None, ["a"]), (1, None, ["a"]), (3, None, ["a"])]),
        ("srun", "--het-group=1 a : --het-group=0 b", [(1, None, ["a"]), (0, None, ["b"])]),
        ("srun", "--pack-group=1 a", [(1, None, ["a"])]),
        ("salloc", "-n1 : -n2 a : b", [(0, 1, ["a", ":", "b"]), (1, 2, ["a", ":", "b"])]),
        ("salloc", "-n1 : -n2", [(0, 1, []), (1, 2, [])]),
    ],
)
def test_srun_and_salloc(command: str, line: str, components: list[tuple[int, object, list[str]]]) -> None:
    assert asked(command, line) == components


def test_a_component_reads_its_own_variables() -> None:
    environ = {
        "SLURM_HET_SIZE": "2",
        "SLURM_JOB_ID": "7",
        "SLURM_NTASKS": "1",
        "SLURM_NTASKS_HET_GROUP_1": "3",
        "SLURM_JOB_NUM_NODES": "1",
        "SLURM_JOB_NUM_NODES_HET_GROUP_1": "2",
        "SLURM_JOB_ID_HET_GROUP_1": "8",
    }
    first, second = srun_salloc.settle("srun", ["a", ":", "b"], environ, CONTEXT)
    assert (first.settings.get("ntasks"), first.settings.get("nodes")) == (1, (1, 1))
    assert (second.settings.get("ntasks"), second.settings.get("nodes")) == (3, (2, 2))
    assert second.settings.get("jobid") == 7
    assert asked("srun", "-n5 --het-group=1 a", **environ) == [(1, 5, ["a"])]


def test_the_tasks_of_a_step_are_counted_in_the_order_of_components() -> None:
    components = srun_salloc.settle("srun", ["--het-group=1", "a", ":", "--het-group=0", "b"], {}, CONTEXT)
    assert [one.words for one in srun_salloc.for_step(components)] == [["b"], ["a"]]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("--het-group=1 a : --het-group=1 b", "fatal: Duplicate het groups in single srun not supported"),
        ("--het-group=0 a : b", "fatal: Duplicate het groups in single srun not supported"),
        ("a : -n2", "fatal: No command given to execute."),
        ("a :", "fatal: No command given to execute."),
        ("--het-group=x a", "error: Invalid --het-group value: x"),
        ("--het-group=128 a", "error: Invalid --het-group value: 128"),
        ("--het-group=1-0 a", "error: _parse_single_range: Invalid range: `1-0'"),
        ("--het-group= a", "error: _parse_single_range: Invalid range: `'"),
    ],
)
def test_srun_refuses(line: str, why: str) -> None:
    with pytest.raises(ShimError) as refused:
        srun_salloc.for_step(srun_salloc.settle("srun", line.split(" "), {}, CONTEXT))
    assert why in refused.value.lines


def test_a_range_of_components_may_have_no_end() -> None:
    assert (srun_salloc.het_groups("0-"), srun_salloc.het_groups("1-,3-4")) == ([0], [1, 3, 4])


@given(st.text(alphabet="0123456789,-[]x", max_size=12))
def test_any_het_group_is_read_or_refused(text: str) -> None:
    try:
        assert srun_salloc.het_groups(text) == sorted(set(srun_salloc.het_groups(text)))
    except ShimError as refused:
        assert refused.lines[-1] == f"error: Invalid --het-group value: {text}"


def test_backends_say_whether_they_start_components_together() -> None:
    refuse_het(2)
    refuse_het(1, "kubernetes")
    with pytest.raises(Unsupported, match="heterogeneous jobs are not supported on the kubernetes backend"):
        refuse_het(2, "kubernetes")
