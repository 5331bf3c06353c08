"""The tables: complete, consistent, and every option has a text, a reader and a fate."""

from __future__ import annotations

import pytest

from shim.core.options import help_texts, support, table_query, table_submit, usage, values

SUBMIT = ("sbatch", "srun", "salloc")
QUERY = ("squeue", "scancel", "sinfo", "scontrol")

# What job scripts ask for, most frequent first.
MOST_USED = """
time job-name nodes partition output cpus-per-task account ntasks ntasks-per-node mem error gres
mail-type mem-per-cpu mail-user exclusive qos gpus-per-node constraint array hint chdir gpus
gpus-per-task mem-per-gpu export reservation overcommit wait-all-nodes requeue signal
ntasks-per-socket open-mode licenses nodelist dependency ntasks-per-core distribution no-requeue
exclude clusters parsable deadline get-user-env comment nice ntasks-per-gpu gpu-bind tmp wckey
time-min cpus-per-gpu
"""


def table(command: str):
    return (table_submit if command in SUBMIT else table_query).options_of(command)


@pytest.mark.parametrize("command", SUBMIT + QUERY)
def test_names_are_unique(command: str) -> None:
    names = [option.long for option in table(command)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("command", SUBMIT)
def test_letters_are_unique(command: str) -> None:
    letters = [option.short for option in table(command) if option.short]
    assert len(letters) == len(set(letters))


@pytest.mark.parametrize(
    "command, letter, names",
    [
        ("srun", "b", "bcast bcast-exclude begin bb bbf"),
        ("salloc", "b", "begin bell bb bbf"),
        ("sbatch", "b", "batch begin bb bbf"),
        (
            "sbatch",
            "c",
            "cluster-constraint chdir cluster clusters comment container context contiguous constraint core-spec "
            "cores-per-socket cpu-freq cpus-per-gpu cpus-per-task",
        ),
        (
            "srun",
            "t",
            "threads task-epilog task-prolog tasks-per-node test-only thread-spec threads-per-core time time-min tmp",
        ),
        ("srun", "u", "uid unbuffered use-min-nodes usage"),
        ("srun", "j", "jobid job-name"),
        ("sinfo", "f", "federation format"),
        ("squeue", "n", "name noconvert node nodes nodelist noheader"),
        ("squeue", "l", "local long licenses"),
    ],
)
def test_order(command: str, letter: str, names: str) -> None:
    """The order in which Slurm lists what an ambiguous name may mean, measured."""
    assert [option.long for option in table(command) if option.long.startswith(letter)] == names.split()


@pytest.mark.parametrize("command", SUBMIT)
def test_every_kind_has_a_reader(command: str) -> None:
    assert {option.kind for option in table(command)} <= set(values._READERS)


@pytest.mark.parametrize("command, count", [("sbatch", 106), ("srun", 131), ("salloc", 95)])
def test_the_tables_are_complete(command: str, count: int) -> None:
    """22.05 has so many names; a missing one would change what an abbreviation means."""
    assert len(table(command)) == count


@pytest.mark.parametrize(
    "command, option, variables",
    [
        ("sbatch", "time", ("SBATCH_TIMELIMIT",)),
        ("srun", "time", ("SLURM_TIMELIMIT",)),
        ("salloc", "time", ("SALLOC_TIMELIMIT",)),
        ("sbatch", "ntasks", ()),
        ("srun", "ntasks", ("SLURM_NPROCS", "SLURM_NTASKS")),
        ("srun", "cpus-per-task", ("SRUN_CPUS_PER_TASK",)),
        ("sbatch", "cpus-per-task", ()),
        ("sbatch", "clusters", ("SLURM_CLUSTERS", "SBATCH_CLUSTERS")),
        ("srun", "nodes", ("SLURM_JOB_NUM_NODES",)),
        ("salloc", "job-name", ()),
    ],
)
def test_variables(command: str, option: str, variables: tuple[str, ...]) -> None:
    assert next(one.env for one in table(command) if one.long == option) == variables


@pytest.mark.parametrize("command", SUBMIT + QUERY)
def test_help_names_every_option(command: str) -> None:
    text = usage.text_for(command, "help")
    said = help_texts.texts(command)
    assert text.startswith(f"Usage: {command} ")
    for option in table(command):
        assert said[option.field]
        if option.long == option.field:
            assert f"--{option.long}" in text


@pytest.mark.parametrize("command", SUBMIT + QUERY)
def test_usage_and_version(command: str) -> None:
    assert usage.text_for(command, "version") == "slurm 22.05.8\n"
    lines = usage.text_for(command, "usage").splitlines()
    assert lines[0].startswith(f"Usage: {command} ")
    assert max(map(len, lines)) < 100


def test_every_option_has_a_fate() -> None:
    known = set()
    for command in SUBMIT:
        known |= {option.field for option in table(command)}
    for name in known:
        fate, reason = support.fate_of(name)
        assert fate in support.FATES
        assert reason or fate == support.HONOURED
    assert set(support._BY_NAME) <= known
    assert set(support._NOTES) <= known


def test_the_most_used_directives_are_not_refused() -> None:
    assert len(MOST_USED.split()) >= 45
    assert not [name for name in MOST_USED.split() if support.fate_of(name)[0] == support.REFUSED]


def test_rows_of_the_support_table() -> None:
    rows = {row[0]: row for row in support.rows()}
    assert rows["-t, --time=…"][1:4] == (
        "sbatch srun salloc",
        "SBATCH_TIMELIMIT SLURM_TIMELIMIT SALLOC_TIMELIMIT",
        "honoured",
    )
    assert rows["--bb=…"][3] == "refused"
    assert rows["--tasks-per-node=…"][4] == "the same as --ntasks-per-node"
    assert all(row[3] == "refused" for row in support.rows("kubernetes"))
