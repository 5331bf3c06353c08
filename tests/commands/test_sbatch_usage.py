"""sbatch from its command line to what it hands the controller, and what it says and returns."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shim.commands import entrypoint, sbatch
from shim.control import client
from shim.core.errors import RequestError
from shim.core.model.request import JobRequest
from shim.job.container import tools
from shim.job.submitter import passed_on


class Controller:
    """Stands where the controller would: keeps what it is asked and answers as told."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.answers: dict[str, Any] = {"submit": {"job_id": 7, "cluster": "local"}, "wait": {"exit_status": 0}}

    def call(self, op: str, fields: dict[str, Any]) -> dict[str, Any]:
        self.calls.append((op, fields))
        answer = self.answers[op]
        if isinstance(answer, Exception):
            raise answer
        return answer

    @property
    def submitted(self) -> dict[str, Any]:
        return next(fields for op, fields in self.calls if op == "submit")

    @property
    def request(self) -> JobRequest:
        return JobRequest.from_dict(self.submitted["request"])


@pytest.fixture
def controller(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Controller:
    stands = Controller()
    monkeypatch.setattr(client, "call", stands.call)
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return stands


def write(name: str, text: str = "#!/bin/sh\ntrue\n") -> str:
    path = Path(name)
    path.write_bytes(text.encode())
    return str(path.resolve())


def run(*argv: str) -> int:
    return entrypoint.run("sbatch", list(argv), sbatch.main)


def test_a_script(controller: Controller, capsys: pytest.CaptureFixture[str]) -> None:
    path = write("job.sh", "#!/bin/bash\n#SBATCH -J named -N 2\ntrue\n")
    assert run("-n4", "job.sh", "a", "-n", "9") == 0
    assert capsys.readouterr() == ("Submitted batch job 7\n", "")
    request = controller.request
    assert (request.name, request.min_nodes, request.ntasks) == ("named", 2, 4)
    assert (request.command, request.arguments, request.work_dir) == (path, ("a", "-n", "9"), os.getcwd())
    fields = controller.submitted
    assert fields["script"] == "#!/bin/bash\n#SBATCH -J named -N 2\ntrue\n"
    assert fields["submit_line"] == "sbatch -n4 job.sh a -n 9"
    assert fields["environment"]["PATH"] == os.environ["PATH"]
    assert fields["rlimits"]["RLIMIT_NOFILE"]
    assert (fields["test_only"], fields["cluster"], fields["sid"]) == (False, None, os.getsid(0))
    assert len(fields["token"]) == 32


def test_the_name_of_a_script(controller: Controller) -> None:
    os.mkdir("sub")
    write("sub/x.y.sh")
    assert run("sub/x.y.sh") == 0
    assert controller.request.name == "x.y.sh"


def test_a_script_on_the_path(controller: Controller, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkdir("tools")
    path = write("tools/onpath")
    monkeypatch.setenv("PATH", f"/nosuch:{os.path.abspath('tools')}")
    assert run("onpath") == 0
    assert controller.request.command == path


def test_standard_input(controller: Controller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"#!/bin/sh\n#SBATCH -t 5\necho \xff\n")))
    assert run() == 0
    assert (controller.request.name, controller.request.command, controller.request.time_limit) == (None, None, 5)
    assert controller.submitted["script"].encode("utf-8", "surrogateescape") == b"#!/bin/sh\n#SBATCH -t 5\necho \xff\n"


def test_a_script_may_have_four_mebibytes(controller: Controller, capsys: pytest.CaptureFixture[str]) -> None:
    text = "#!/bin/sh\n" + "#" * ((4 << 20) - 10)
    write("longest", text)
    write("longer", text + "#")
    assert run("longest") == 0
    assert (run("longer"), len(controller.calls)) == (1, 1)
    why = "Pathname of a file, directory or other parameter too long"
    assert capsys.readouterr().err == f"sbatch: error: Batch job submission failed: {why}\n"


def test_closed_standard_input(
    controller: Controller, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", None)
    assert run() == 1
    assert capsys.readouterr().err == "sbatch: error: Batch script is empty!\n"


def test_wrap(controller: Controller) -> None:
    assert run("--wrap", "echo hi", "-n2") == 0
    assert controller.submitted["script"] == "#!/bin/sh\n# This script was created by sbatch --wrap.\n\necho hi\n"
    assert (controller.request.name, controller.request.ntasks, controller.request.command) == ("wrap", 2, None)


def test_a_wrapped_command_is_no_directive(controller: Controller) -> None:
    assert run("--wrap", "#SBATCH -n 9") == 0
    assert controller.request.ntasks is None


@pytest.mark.parametrize(
    "argv, out",
    [
        (["--parsable"], "7\n"),
        (["-Q"], ""),
        (["--parsable", "-Q"], ""),
        (["-M", "local"], "Submitted batch job 7 on cluster local\n"),
        (["-M", "local", "--parsable"], "7;local\n"),
        (["--cluster=local"], "Submitted batch job 7 on cluster local\n"),
    ],
)
def test_what_it_says(controller: Controller, capsys: pytest.CaptureFixture[str], argv: list[str], out: str) -> None:
    assert run(*argv, "--wrap=true") == 0
    assert capsys.readouterr() == (out, "")


@pytest.mark.parametrize("status, code", [(0, 0), (3 << 8, 3), (9, 1), (255 << 8, 255)])
def test_wait(controller: Controller, status: int, code: int) -> None:
    controller.answers["wait"] = {"exit_status": status}
    assert run("-W", "--wrap=true") == code
    assert controller.calls[-1] == ("wait", {"job_id": 7})


def test_notes_go_to_standard_error(controller: Controller, capsys: pytest.CaptureFixture[str]) -> None:
    controller.answers["submit"] = {"job_id": 7, "cluster": "local", "notes": ["Warning: slow"]}
    assert run("-N4", "-n2", "--wrap=true") == 0
    out, err = capsys.readouterr()
    assert out == "Submitted batch job 7\n"
    assert err == "sbatch: Warning: can't run 2 processes on 4 nodes, setting nnodes to 2\nsbatch: Warning: slow\n"


def test_verbose(controller: Controller, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("-v", "-t5", "--wrap=true") == 0
    assert capsys.readouterr().err.splitlines() == [
        "sbatch: defined options",
        "sbatch: -------------------- --------------------",
        "sbatch: time                : 00:05:00",
        "sbatch: verbose             : 1",
        "sbatch: wrap                : true",
        "sbatch: -------------------- --------------------",
        "sbatch: end of defined options",
    ]


def test_verbose_names_what_does_less_here(controller: Controller, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("-v", "--mail-type=END", "--wckey=k", "-t5", "--wrap=true") == 0
    told = [line for line in capsys.readouterr().err.splitlines() if "approximated" in line]
    assert len(told) == 2
    assert told[0].startswith(
        "sbatch: --mail-type is approximated here: sent by the program that mail_prog (MailProg) names"
    )
    assert run("--mail-type=END", "--wrap=true") == 0
    assert capsys.readouterr().err == ""


def test_only_a_test(
    controller: Controller, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    controller.answers["submit"] = {
        "job_id": 9,
        "start": 86400,
        "processors": 32,
        "nodes": "n[1-4]",
        "partition": "debug",
    }
    assert run("--test-only", "--wrap=true") == 0
    out, err = capsys.readouterr()
    assert (out, controller.submitted["test_only"]) == ("", True)
    assert err.startswith("sbatch: Job 9 to start at 1970-01-0")
    assert err.endswith(" using 32 processors on nodes n[1-4] in partition debug\n")


def test_only_a_test_that_cannot_be(controller: Controller, capsys: pytest.CaptureFixture[str]) -> None:
    controller.answers["submit"] = RequestError(
        "error: Memory specification can not be satisfied",
        "error: Batch job submission failed: Requested node configuration is not available",
    )
    assert run("--test-only", "--wrap=true") == 1
    assert capsys.readouterr().err == "allocation failure: Requested node configuration is not available\n"


def test_a_refusal_of_the_controller(controller: Controller, capsys: pytest.CaptureFixture[str]) -> None:
    controller.answers["submit"] = RequestError("error: Batch job submission failed: Invalid partition name specified")
    assert run("--wrap=true") == 1
    assert capsys.readouterr() == (
        "",
        "sbatch: error: Batch job submission failed: Invalid partition name specified\n",
    )


@pytest.mark.parametrize(
    "argv, code, err",
    [
        (["nofile.sh"], 1, "sbatch: error: Unable to open file nofile.sh\n"),
        (["-"], 1, "sbatch: error: Unable to open file -\n"),
        (["sub/nofile.sh"], 1, "sbatch: error: Unable to open file sub/nofile.sh\n"),
        (["."], 1, "sbatch: error: Batch script is empty!\n"),
        (["--wrap=true", "x"], 1, "sbatch: error: Script arguments not permitted with --wrap option\n"),
        (["--nosuch"], 255, "sbatch: unrecognized option '--nosuch'\nTry \"sbatch --help\" for more information\n"),
        (["-n", "abc", "--wrap=true"], 1, 'sbatch: error: Invalid numeric value "abc" for --ntasks.\n'),
        (["--time=1h", "--wrap=true"], 255, "sbatch: error: Invalid --time specification\n"),
        (
            ["--begin=abc", "--wrap=true"],
            255,
            "Invalid time specification (pos=0): abc\nsbatch: error: Invalid --begin specification\n",
        ),
        (["-n1", ":", "-n2", "x"], 1, "sbatch: error: Unable to open file x\n"),
        (
            ["--export-file=/nosuch", "--wrap=true"],
            1,
            "sbatch: error: Could not open user environment file /nosuch\n",
        ),
    ],
)
def test_errors(
    controller: Controller, capsys: pytest.CaptureFixture[str], argv: list[str], code: int, err: str
) -> None:
    assert run(*argv) == code
    assert capsys.readouterr() == ("", err)
    assert controller.calls == []


def test_the_command_line_is_judged_before_the_script(
    controller: Controller, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--nosuch", "nofile.sh") == 255
    assert run("--time=abc", "nofile.sh") == 255
    assert capsys.readouterr().err.splitlines()[-1] == "sbatch: error: Invalid --time specification"
    write("a.sh", "#!/bin/sh\n#SBATCH --mem=x\n")
    assert run("--time=abc", "a.sh") == 255
    assert capsys.readouterr().err.splitlines()[-1] == "sbatch: error: Invalid --time specification"


def test_an_unmatched_quote_names_file_and_line(controller: Controller, capsys: pytest.CaptureFixture[str]) -> None:
    write("a.sh", '#!/bin/sh\n\n#SBATCH --comment="open\n')
    assert run("a.sh") == 1
    assert capsys.readouterr().err == 'sbatch: fatal: a.sh: line 3: Unmatched `"` in [--comment="open]\n'


def test_export_file(controller: Controller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_CONF", "/x")
    monkeypatch.setenv("OTHER", "no")
    write("lines.env", "A=1\nB=a=b\nnothing\n")
    write("nul.env", "A=1\nstill A\0B=2\0")
    assert run("--export-file=lines.env", "--wrap=true") == 0
    assert controller.submitted["environment"] == {"SLURM_CONF": "/x", "A": "1", "B": "a=b"}
    assert controller.request.get_user_env
    controller.calls.clear()
    assert run("--export-file=nul.env", "--wrap=true") == 0
    assert controller.submitted["environment"] == {"SLURM_CONF": "/x", "A": "1\nstill A", "B": "2"}


@pytest.mark.parametrize(
    ("propagate", "passed"),
    [("NONE", []), ("RLIMIT_CORE,STACK", ["RLIMIT_CORE", "RLIMIT_STACK"]), ("NOFILE", ["RLIMIT_NOFILE"])],
)
def test_limits_by_either_name(propagate: str, passed: list[str]) -> None:
    assert sorted(passed_on(propagate)) == passed
    assert set(passed) <= set(passed_on(None))


def test_limits_that_are_not_passed_on(controller: Controller) -> None:
    assert run("--propagate=NONE", "--wrap=true") == 0
    assert controller.submitted["rlimits"] == {}
    controller.calls.clear()
    assert run("--propagate=CORE,STACK", "--wrap=true") == 0
    assert sorted(controller.submitted["rlimits"]) == ["RLIMIT_CORE", "RLIMIT_STACK"]


def test_umask_is_recorded_and_kept(controller: Controller) -> None:
    old = os.umask(0o027)
    try:
        assert run("--wrap=true") == 0
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(old)
    assert controller.request.umask == 0o027


@pytest.mark.parametrize(
    "option, start", [("--version", "slurm 22.05.8\n"), ("-V", "slurm 22.05.8\n"), ("-h", "Usage: sbatch ")]
)
def test_texts(controller: Controller, capsys: pytest.CaptureFixture[str], option: str, start: str) -> None:
    assert run(option, "nofile.sh") == 0
    assert capsys.readouterr().out.startswith(start)


@pytest.mark.parametrize(
    "argv, code, out",
    [
        (["-V", "--nosuch"], 0, "slurm 22.05.8\n"),
        (["-V", "--time=abc"], 0, "slurm 22.05.8\n"),
        (["--nosuch", "-V"], 255, ""),
        (["--time=abc", "-V"], 255, ""),
        (["--gres=help"], 0, "Valid gres options are:\ngpu[[:type]:count]\n"),
    ],
)
def test_the_first_word_that_counts(
    controller: Controller, capsys: pytest.CaptureFixture[str], argv: list[str], code: int, out: str
) -> None:
    assert run(*argv) == code
    assert capsys.readouterr().out == out


def test_hint_help(controller: Controller, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--hint=help", "--wrap=true") == 1
    out, err = capsys.readouterr()
    assert "memory_bound" in out
    assert err == ""
    assert controller.calls == []


ARGUMENTS = [
    "-n",
    "4",
    "--wrap=x",
    "-N2",
    "--time",
    ":",
    "--gres=gpu:1",
    "--signal=USR1",
    "-W",
    "-v",
    "job.sh",
    "--hold",
    "--mem",
]


@given(st.lists(st.sampled_from(ARGUMENTS) | st.text(max_size=5), max_size=6), st.binary(max_size=80))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_any_command_line_and_script(
    controller: Controller, monkeypatch: pytest.MonkeyPatch, argv: list[str], data: bytes
) -> None:
    Path("job.sh").write_bytes(b"#!/bin/sh\n#SBATCH " + data)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
    log = os.environ["SHIM_STATE_DIR"]
    assert run(*argv) in (0, 1, 255)
    assert not os.path.exists(log), "an internal error was logged"


@pytest.mark.parametrize(
    "words, name, command",
    [
        ("job.sh", "here", "{work}/job.sh"),
        ("./job.sh", "here", "./job.sh"),
        ("sub/job.sh", "below", "{work}/sub/job.sh"),
        ("--chdir=sub job.sh", "below", "{work}/sub/job.sh"),
        ("--chdir=sub ./job.sh", "here", "./job.sh"),
        ("--chdir=/ job.sh", "here", "job.sh"),
        ("--chdir=/ sub/job.sh", "below", "sub/job.sh"),
        ("deep/job.sh", "on-path", "{work}/bin/deep/job.sh"),
        ("folder", "on-path", "{work}/bin/folder"),
    ],
)
def test_where_the_script_is_found(
    controller: Controller, monkeypatch: pytest.MonkeyPatch, words: str, name: str, command: str
) -> None:
    """Measured: --chdir of the command line is looked in instead of the working directory, $PATH also for names with slashes."""
    for path, said in (
        ("job.sh", "here"),
        ("sub/job.sh", "below"),
        ("bin/deep/job.sh", "on-path"),
        ("bin/folder", "on-path"),
    ):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        write(path, f"#!/bin/sh\n#SBATCH -J {said}\n")
    Path("folder").mkdir()
    monkeypatch.setenv("PATH", f"/usr/bin:{os.getcwd()}/bin")
    assert run(*words.split()) == 0
    assert (controller.request.name, controller.request.command) == (name, command.format(work=os.getcwd()))


def test_warnings_come_before_the_options(controller: Controller, capsys: pytest.CaptureFixture[str]) -> None:
    script = write("job.sh")
    assert run("-v", "-N4", "-n2", "-S1", script) == 0
    lines = capsys.readouterr().err.splitlines()
    assert lines[:3] == [
        "sbatch: error: Ignoring -S since it's not allowed by configuration (AllowSpecResourcesUsage = No)",
        "sbatch: Warning: can't run 2 processes on 4 nodes, setting nnodes to 2",
        "sbatch: defined options",
    ]
    assert run("-Q", "-N4", "-n2", "-S1", script) == 0
    assert capsys.readouterr().err.splitlines() == lines[:1]


def test_who_asks_for_a_container_is_told_what_to_do_about_all_of_them(
    controller: Controller, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools, "which", lambda name: None)
    Path("job.sh").write_text(
        "#!/bin/sh\n#SBATCH --container-image=nvcr.io/x:1 --container-mounts=/a:/b\n#SBATCH --container-mount-home\ntrue\n"
    )
    assert entrypoint.run("sbatch", ["job.sh"]) == 255
    first, hint, what, how = capsys.readouterr().err.splitlines()
    assert (first, hint) == (
        "sbatch: unrecognized option '--container-image=nvcr.io/x:1'",
        'Try "sbatch --help" for more information',
    )
    assert what.endswith(
        "there is no program for containers on PATH: none of enroot, podman, docker, apptainer, singularity and unsquashfs"
    )
    ignored = '[plugins] ignore = ["container-image=", "container-mounts=", "container-mount-home"]'
    assert ignored in how
    assert not controller.calls
    assert entrypoint.run("srun", ["--container-nosuch", "true"]) == 255
    assert len(capsys.readouterr().err.splitlines()) == 2
    # What is advised works.
    folder = Path(os.environ["XDG_CONFIG_HOME"], "shim")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text(ignored.replace("[plugins] ", "[plugins]\n") + "\n")
    assert entrypoint.run("sbatch", ["job.sh"]) == 0
    assert controller.request.container == {}


@pytest.mark.parametrize(
    ("programs", "option", "text"),
    [
        (
            (),
            "--container=b",
            "--container=BUNDLE needs a program to run OCI bundles: none of runc and crun is on PATH",
        ),
        (
            ("unsquashfs",),
            "--container-image=ubuntu",
            "--container-image needs a program to get an image by its name: none of enroot, podman, docker, apptainer and singularity is on PATH",
        ),
        (
            ("podman",),
            "--container-image=./a.sqsh",
            "--container-image=FILE needs a program to unpack squashfs files: unsquashfs is not on PATH",
        ),
        (
            ("podman",),
            "--container-image=x --container-mounts=a:b",
            'bad --container-mounts "a:b": SRC:DST[:FLAGS] with an absolute DST is wanted',
        ),
        (
            ("podman",),
            "--container-image=x --container-name=a/b",
            'bad --container-name "a/b": letters, digits, "-", "_" and "." are wanted',
        ),
    ],
)
def test_what_was_looked_for_is_told_when_the_job_is_submitted(
    controller: Controller,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    programs: tuple[str, ...],
    option: str,
    text: str,
) -> None:
    monkeypatch.setattr(tools, "which", lambda name: f"/bin/{name}" if name in programs else None)
    Path("job.sh").write_text(f"#!/bin/sh\n#SBATCH {option}\ntrue\n")
    assert entrypoint.run("sbatch", ["job.sh"]) == 1
    assert capsys.readouterr().err == f"sbatch: error: {text}\n"
    assert not controller.calls


def test_a_container_without_configuration(controller: Controller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "which", lambda name: f"/bin/{name}" if name == "podman" else None)
    Path("job.sh").write_text(
        '#!/bin/sh\n#SBATCH --container-image="nvcr.io#x:1" --container-mount-home --container-remap-root\ntrue\n'
    )
    assert entrypoint.run("sbatch", ["--no-container-mount-home", "--container-workdir", "/w", "job.sh"]) == 0
    assert controller.request.container == {
        "container-image": "nvcr.io#x:1",
        "container-remap-root": "",
        "container-workdir": "/w",
    }
