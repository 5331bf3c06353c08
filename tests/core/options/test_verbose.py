"""What -v says of each option of srun and salloc: name and value as Slurm shows them, measured."""

from __future__ import annotations

import pytest

from shim.core.errors import ShimError
from shim.core.options.srun_salloc import settle
from shim.core.options.value_parsing import PrintAndExit
from shim.core.options.values import Context
from shim.core.options.verbose import defined_options


def no_file(path: str) -> str:
    raise FileNotFoundError(2, "No such file or directory", path)


def shown(command: str, line: str) -> dict[str, str]:
    (one,) = settle(command, [*line.split(), "true"], {}, Context(0.0, 1001, no_file))
    return dict(text.split(": ", 1) for text in defined_options(one.settings, "/w")[2:-2])


@pytest.mark.parametrize(
    "command, line, name, value",
    [
        ("srun", "--accel-bind=gmnv", "accel-bind", "vgn"),
        ("srun", "--bcast", "bcast", "set"),
        ("srun", "--bcast=/x", "bcast", "/x"),
        ("srun", "--compress", "compress", "lz4"),
        ("srun", "--compress=none", "compress", "none"),
        ("srun", "--cpu-bind=none", "cpu-bind", "(null)"),
        ("srun", "--cpu-bind=verbose,rank", "cpu-bind", "(null)"),
        ("srun", "--cpu-bind=verbose,cores", "cpu-bind", "verbose,cores"),
        ("srun", "--cpu-bind=map_cpu:0,1", "cpu-bind", "0,1"),
        ("srun", "--cpu-bind=quiet,mask_cpu:0x3", "cpu-bind", "3"),
        ("srun", "-o o%j", "output", "o%j"),
        ("srun", "-e none", "error", "/dev/null"),
        ("srun", "-D sub", "chdir", "/w/sub"),
        ("srun", "-I", "immediate", "1"),
        ("srun", "-I0", "immediate", "0"),
        ("salloc", "-I5", "immediate", "5"),
        ("salloc", "-K", "kill-command", "TERM"),
        ("salloc", "-K9", "kill-command", "KILL"),
        ("salloc", "--bell", "bell", "bell-always"),
        ("salloc", "--no-bell", "no-bell", "bell-never"),
        ("srun", "--overlap=0", "overlap", "set"),
        ("srun", "--resv-ports", "resv-ports", "0"),
        ("srun", "--send-libs", "send-libs", "set"),
        ("srun", "--send-libs=n", "send-libs", "(null)"),
        ("srun", "--slurmd-debug=3", "slurmd-debug", "info"),
        ("srun", "--slurmd-debug=9", "slurmd-debug", "verbose"),
        ("srun", "--slurmd-debug=Error", "slurmd-debug", "error"),
        ("srun", "--slurmd-debug=x", "slurmd-debug", "verbose"),
        ("srun", "--signal=TERM@70", "signal", "TERM@70"),
    ],
)
def test_shown(command: str, line: str, name: str, value: str) -> None:
    assert shown(command, line)[f"{name:<20}"] == value


def test_order() -> None:
    names = [name.strip() for name in shown("srun", "-T4 -p x --mcs-label=l --mail-user=me -L a")]
    assert names == ["licenses", "mail-user", "threads", "mcs-label", "partition"]


@pytest.mark.parametrize(
    "command, line, lines, code",
    [
        ("srun", "--signal=B:USR1@30", ["error: Invalid --signal specification"], 255),
        ("salloc", "--signal=rb:USR1", ["error: Invalid --signal specification"], 255),
        ("srun", "--accel-bind=m", ["error: Invalid --accel-bind specification"], 255),
        ("srun", "--send-libs=x", ["error: Invalid --send-libs specification"], 255),
        ("srun", "--msg-timeout=0", ['error: Invalid numeric value "0" for --msg-timeout.'], 1),
        (
            "srun",
            "--cpu-bind=boards",
            [
                "cluster configuration lacks support for cpu binding",
                'error: unrecognized --cpu-bind argument "boards"',
                "fatal: Failed to parse --cpu-bind= values.",
            ],
            1,
        ),
    ],
)
def test_refused(command: str, line: str, lines: list[str], code: int) -> None:
    with pytest.raises(ShimError) as refused:
        shown(command, line)
    assert (list(refused.value.lines), refused.value.code) == (lines, code)


def test_help_on_binding() -> None:
    with pytest.raises(PrintAndExit) as text:
        shown("srun", "--cpu-bind=help")
    assert (text.value.text, text.value.code) == ("CPU bind options not supported with current configuration\n", 1)


@pytest.mark.parametrize(
    "command, line, ntasks, note",
    [
        ("srun", "-v -B2", None, None),
        ("srun", "-v -B2:2", None, None),
        ("srun", "-v -B2:4:1", 8, "Number of tasks implicitly set to 8"),
        ("salloc", "-v -B2", 2, "Number of tasks implicitly set to 2"),
    ],
)
def test_tasks_of_a_geometry(command: str, line: str, ntasks: int | None, note: str | None) -> None:
    (one,) = settle(command, [*line.split(), "true"], {}, Context(0.0, 1001, no_file))
    assert one.settings.get("ntasks") == ntasks
    assert one.notes == ([note] if note else [])


@pytest.mark.parametrize("option", ["--cpu-bind=none", "--threads-per-core=1"])
def test_srun_says_that_nothing_is_bound(option: str) -> None:
    assert settle("srun", [option, "x"], {}, Context(0.0, 1001, no_file))[0].notes == [
        "cluster configuration lacks support for cpu binding"
    ]


def test_a_hint_gives_way_to_binding() -> None:
    context = Context(0.0, 1001, no_file)
    assert "hint" not in settle("srun", ["--hint=compute_bound", "--cpu-bind=cores", "x"], {}, context)[0].settings
    assert "hint" in settle("srun", ["--hint=compute_bound", "--cpu-bind=verbose", "x"], {}, context)[0].settings
