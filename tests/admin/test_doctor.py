"""What the doctor finds."""

from __future__ import annotations

import io
import os
import resource
from pathlib import Path

import pytest
import shellingham

from shim.admin.doctor import GOOD, NOTE, machine
from shim.control import paths
from shim.job import libc
from shim.job.agent import cgroup, isolation
from tests import reference


def findings() -> tuple[bool, str]:
    out = io.StringIO()
    return machine.report(out), out.getvalue()


def test_a_machine_where_nothing_has_run_yet() -> None:
    fine, text = findings()
    assert fine
    assert "  ok  no job index yet: the first job makes it\n" in text


def test_a_damaged_index(state_dir: Path) -> None:
    paths.ensure(paths.state_dir())
    Path(paths.index_path()).write_bytes(b"no database at all " * 1000)
    fine, text = findings()
    assert not fine
    assert f"FAIL  the job index {paths.index_path()} is damaged" in text


def test_names_that_the_configuration_chose(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation, "probe", lambda *_: ("namespaces", "mount and UTS namespaces"))
    monkeypatch.setenv("SHIM_LOCAL_ISOLATION", "addresses")
    assert "note  nodes are named by loopback addresses, 127.0.0.1 and on, as configured (isolation)\n" in findings()[1]


@pytest.mark.parametrize(
    ("shell", "file", "line"),
    [
        ("bash", "~/.bashrc", "export PATH={folder}:$PATH"),
        ("zsh", "~/.zshrc", "export PATH={folder}:$PATH"),
        ("dash", "~/.profile", "export PATH={folder}:$PATH"),
        ("tcsh", "~/.cshrc", "set path = ({folder} $path)"),
        ("fish", "~/.config/fish/config.fish", "fish_add_path --path --move {folder}"),
    ],
)
def test_commands_that_are_not_first_on_path(monkeypatch: pytest.MonkeyPatch, shell: str, file: str, line: str) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr(shellingham, "detect_shell", lambda: (shell, f"/bin/{shell}"))
    folder = Path(machine.__file__).parents[3] / "bin"
    assert f"note  to have ours first, add to {file}: {line.format(folder=folder)}\n" in findings()[1]
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    assert "to have ours first" not in findings()[1]


def test_a_shell_that_cannot_be_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise shellingham.ShellDetectionFailure

    monkeypatch.setattr(shellingham, "detect_shell", fail)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("SHELL", "/usr/bin/zsh")
    assert "add to ~/.zshrc: " in findings()[1]


def test_whether_jobs_can_leave_their_agents_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> str:
        raise OSError(13, "/sys/fs/cgroup/user.slice: Permission denied")

    monkeypatch.setattr(cgroup, "find", refused)
    text = (
        "a job that kills its own agent with -9 and hides (setsid, env -i) leaves processes: no control group is ours"
    )
    assert (NOTE, f"{text} (/sys/fs/cgroup/user.slice: Permission denied)") in list(machine._findings())
    monkeypatch.setattr(cgroup, "find", lambda: "/sys/fs/cgroup/mine")
    assert (GOOD, "jobs are held together by control groups below /sys/fs/cgroup/mine") in list(machine._findings())


def test_jobs_that_nobody_looks_after_are_named() -> None:
    paths.ensure(paths.state_dir())
    reference.write_index(Path(paths.index_path()), [reference.job(1, uid=os.getuid())])
    fine, text = findings()
    assert fine
    assert (
        "note  no controller is running though there are jobs: the next command (squeue) starts one; its log is "
        in text
    )


def test_a_limit_under_which_no_controller_can_work(monkeypatch: pytest.MonkeyPatch) -> None:
    true = resource.getrlimit
    monkeypatch.setattr(
        resource, "getrlimit", lambda which: (1 << 20, 64 << 20) if which == resource.RLIMIT_AS else true(which)
    )
    fine, text = findings()
    assert not fine
    assert (
        "FAIL  no controller is running, and none can be started from here: it cannot work under a hard limit of 65536 KiB (ulimit -v)"
        in text
    )


def test_a_kernel_that_does_not_tell_of_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> int:
        raise OSError(38, "this Python has no ctypes")

    monkeypatch.setattr(libc, "watch_clock", none)
    assert (
        "note  begin times that the clock jumps over are met up to a minute late: this Python has no ctypes"
        in findings()[1]
    )
