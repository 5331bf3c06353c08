"""The tables: complete, consistent, and every option has a text, a reader and a fate."""

from __future__ import annotations

from typing import Any

import pytest

from shim.admin import docs
from shim.core.model.request import JobRequest, StepRequest
from shim.core.options import help, plugins, query_options, submit_options, support, values
from shim.core.options.grammar import VERSIONS, Grammar

SUBMIT = ("sbatch", "srun", "salloc")
QUERY = ("squeue", "scancel", "sinfo", "scontrol", "sacct")

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
    return (submit_options if command in SUBMIT else query_options).options_of(command)


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
    text = help.text_for(command, "help")
    assert text.startswith(f"Usage: {command} ")
    for option in table(command):
        if option.long == option.field:
            assert f"--{option.long}" in text


@pytest.mark.parametrize(
    "command, first, last",
    [
        ("sbatch", "[OPTIONS(0)...] [ : [OPTIONS(N)...]] script(0) [args(0)...]", "executable [args...]"),
        (
            "srun",
            "[OPTIONS(0)... [executable(0) [args(0)...]]] [ : [OPTIONS(N)...]] executable(N) [args(N)...]",
            "executable [args...]",
        ),
        ("salloc", "[OPTIONS(0)...] [ : [OPTIONS(N)]] [command(0) [args(0)...]]", "[command [args...]]"),
    ],
)
def test_the_form_of_help_and_usage(command: str, first: str, last: str) -> None:
    """First lines, titles, columns and ends as Slurm's."""
    lines = help.text_for(command, "help").splitlines()
    assert lines[0] == f"Usage: {command} {first}"
    assert [line for line in lines if line and not line.startswith((" ", "Usage"))] == [
        "Parallel run options:",
        "Constraint options:",
        "Consumable resources related options:",
        "Affinity/Multi-core options:",
        "GPU scheduling options:",
        "Help options:",
        "Other options:",
    ]
    assert "  -N, --nodes=min[-max]       number of nodes" in lines
    assert "      --gpus-per-node=[type:]count GPUs on each node" in lines
    brief = help.text_for(command, "usage").splitlines()
    assert brief[-1].strip() == last
    assert "[-N min[-max]]" in " ".join(brief)


def test_help_tells_plugins_apart() -> None:
    text = help.text_for("sbatch", "help", Grammar(pyxis=True, plugins=(("turbo", 0, ""),)))
    own, _, plugins = text.partition("Options provided by plugins:\n")
    assert "--container=" in own
    assert plugins.startswith("      --container-image=image ")
    assert "      --turbo                 an option of this site\n" in plugins


@pytest.mark.parametrize("command", SUBMIT + QUERY)
def test_usage_and_version(command: str) -> None:
    assert help.text_for(command, "version") == "slurm 22.05.8\n"
    lines = help.text_for(command, "usage").splitlines()
    assert lines[0].startswith(f"Usage: {command} ")
    assert max(map(len, lines)) < 100


GRAMMARS = [Grammar(release=release, pyxis=True) for release in VERSIONS]


def every_row() -> list[tuple[str, dict[str, Any]]]:
    """Each row with the command that has it, as it stands in the tables."""
    submitting = [(command, row) for command in SUBMIT for row in (*submit_options.ROWS, *plugins.PYXIS)]
    return submitting + [(command, row) for command in QUERY for row in query_options.ROWS[command]()]


@pytest.mark.parametrize("grammar", GRAMMARS, ids=VERSIONS)
@pytest.mark.parametrize("command", SUBMIT + QUERY)
def test_rows_are_complete(command: str, grammar: Grammar) -> None:
    """Each option has a text for --help, a part of it to stand in, and a level of support with its reason on each backend."""
    options = submit_options.options_of(command, grammar) if command in SUBMIT else query_options.options_of(command)
    for option in options:
        if option.long != option.field:
            assert options.named(option.field) is not None
            continue
        assert option.row["help"]
        assert option.row.get("section", "") in help.SECTIONS
        for backend in support.BACKENDS:
            outcome, reason = support.support_of_row(option.row, backend)
            assert outcome in support.OUTCOMES
            assert reason or outcome == support.HONOURED


def test_rows_are_of_commands_and_releases() -> None:
    for _, row in every_row():
        assert set(row.get("on", "sbatch").split()) <= set(SUBMIT)
        assert {row.get("since", "25.11"), row.get("until", "22.05")} == {"25.11", "22.05"}


def test_rows_name_fields_of_requests() -> None:
    for _, row in every_row():
        job, step = row.get("job", "extra").lstrip("*"), row.get("step", "name").lstrip("*")
        assert job in JobRequest._defaults, row["name"]
        assert step in StepRequest._defaults, row["name"]


def test_fields_that_have_several_options_are_made_by_code() -> None:
    """Of two options that were one field's value, one would be lost."""
    for kind in ("job", "step"):
        fields = [
            (row["name"], row[kind])
            for row in submit_options.ROWS
            if not row.get(kind, "*").startswith("*") and row[kind] != "extra"
        ]
        assert len({field for _, field in set(fields)}) == len(set(fields))


@pytest.mark.parametrize("backend", support.BACKENDS)
def test_the_most_used_directives_are_not_refused(backend: str) -> None:
    assert len(MOST_USED.split()) >= 45
    outcomes = {name: support.support_of_row(submit_options.row_of(name), backend)[0] for name in MOST_USED.split()}
    assert support.REFUSED not in outcomes.values()


def test_a_name_that_no_option_has_is_a_mistake() -> None:
    with pytest.raises(KeyError):
        submit_options.row_of("nosuch")


def test_the_reference_page() -> None:
    text = docs.pages()["support.md"]
    for start in (
        "| `-t, --time=…` | sbatch srun salloc | `SBATCH_TIMELIMIT` `SLURM_TIMELIMIT` `SALLOC_TIMELIMIT` | honoured | honoured |  |",
        "| `--container=…` | sbatch srun salloc | `SBATCH_CONTAINER` `SRUN_CONTAINER` `SALLOC_CONTAINER` | honoured: ",
        "| `--tasks-per-node=…` | sbatch srun salloc |  | honoured: the same as --ntasks-per-node | honoured |  |",
        "| `--container-image=…` | sbatch srun salloc |  | honoured: ",
    ):
        assert f"\n{start}" in text
    assert "| 22.05 only |" in text
    assert "| 25.11 |" in text
