"""Tasks as an agent starts them: environment, files, errors in slurmstepd's words, terminals."""

from __future__ import annotations

import hashlib
import os
import resource
import signal
from pathlib import Path

import pytest

from shim.job.wire import BATCH, CHUNK, STDERR, WINDOW
from tests.job.agent.support import Agent, FakeLeader, ForkServer, write_spec


def test_check_in_names_the_node(agent: Agent) -> None:
    message = agent.leader.told("check-in")
    assert (message["index"], message["pid"]) == (1, agent.pid)
    assert message["boot"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def test_nothing_before_the_start(agent: Agent) -> None:
    agent.leader.told("check-in")
    agent.leader.shell("echo early")
    agent.leader.send("start")
    agent.leader.shell("echo late", step=1)
    assert agent.leader.out(step=1) == "late\n"
    assert {message.get("step") for message in agent.leader.messages} == {None, 1}


def test_a_task_gets_what_was_given_and_nothing_else(leader: FakeLeader) -> None:
    leader.launch("env", env={"A": "1", "ODD": "é\udcff\nx"}, stderr={"to": "null"})
    pid = leader.told("task", step=0)["pid"]
    got = set(leader.out().split("\n"))
    assert got == {
        f"PATH={os.environ['PATH']}",
        "A=1",
        "ODD=é\udcff",
        "x",
        "SLURM_STEP_ID=0",
        "SLURMD_NODENAME=node2",
        "SLURM_PROCID=0",
        f"SLURM_TASK_PID={pid}",
        f"SHIM_RUN_DIR={leader.run_dir}",
        "",
    }


def test_context_of_a_task(leader: FakeLeader) -> None:
    script = "pwd; umask; ps -o pid=,pgid=,sid= -p $$; ls -l /proc/self/fd | wc -l; grep Sig /proc/self/status"
    leader.shell(script, umask=0o027)
    pid = str(leader.told("task")["pid"])
    folder, umask, ids, descriptors, *signals = leader.out().splitlines()
    assert (folder, umask) == (str(leader.run_dir), "0027")
    assert ids.split() == [pid, pid, pid]
    assert descriptors == "5"  # a line of ls's own, 0, 1, 2 and the folder it reads
    for line in signals:
        name, value = line.split()
        if name in ("SigBlk:", "SigIgn:"):
            assert int(value, 16) == 0, line


def test_two_tasks(leader: FakeLeader) -> None:
    leader.shell("echo $SLURM_PROCID; echo err >&2; exit $((SLURM_PROCID + 3))", tasks=2)
    assert [leader.out(rank=rank) for rank in (0, 1)] == ["0\n", "1\n"]
    assert leader.out(STDERR, rank=1) == "err\n"
    assert [leader.status(rank=rank) for rank in (0, 1)] == [3 << 8, 4 << 8]
    assert {key for key in leader.ended if key[0] == 0} == {(0, rank, stream) for rank in (0, 1) for stream in (1, 2)}


def test_several_steps_at_once(leader: FakeLeader) -> None:
    leader.shell("read x; echo one $x", step=1, stdin={"to": "leader"})
    leader.shell("echo two", step=2)
    assert leader.out(step=2) == "two\n"
    leader.feed(b"late\n", step=1)
    assert leader.out(step=1) == "one late\n"


def test_a_task_killed_by_a_signal(leader: FakeLeader) -> None:
    leader.shell("kill -SEGV $$")
    assert os.WTERMSIG(leader.status()) == signal.SIGSEGV


@pytest.mark.parametrize(
    ("command", "code", "text"),
    [
        ("nosuchcmd", 2, "execve(): nosuchcmd: No such file or directory"),
        ("./nosuch", 2, "execve(): {dir}/./nosuch: No such file or directory"),
        ("/etc/passwd", 13, "execve(): /etc/passwd: Permission denied"),
        ("/tmp", 13, "execve(): /tmp: Permission denied"),
        ("./badshell", 2, "execve(): bad interpreter(/no/such/interp): No such file or directory"),
        ("./noformat", 8, "execve(): {dir}/./noformat: Exec format error"),
    ],
)
def test_commands_that_cannot_run(leader: FakeLeader, command: str, code: int, text: str) -> None:
    for name, content in (("badshell", "#!/no/such/interp\necho"), ("noformat", "\x01\x02")):
        (leader.run_dir / name).write_text(content)
        (leader.run_dir / name).chmod(0o755)
    leader.launch(command)
    assert leader.status() == code << 8
    assert leader.out(STDERR) == f"slurmstepd: error: {text.format(dir=leader.run_dir)}\n"
    assert leader.out() == ""


def test_without_a_path_nothing_is_found(leader: FakeLeader) -> None:
    leader.launch("env", env={"PATH": ""})
    assert leader.status() == 2 << 8
    assert leader.out(STDERR) == "slurmstepd: error: execve(): env: No such file or directory\n"


def test_path_is_that_of_the_task(leader: FakeLeader) -> None:
    folder = leader.run_dir / "tools"
    folder.mkdir()
    tool = folder / "tool"
    tool.write_text("#!/bin/sh\necho found as $0\n")
    tool.chmod(0o755)
    leader.launch("tool", env={"PATH": f"/nowhere:{folder}"})
    assert leader.out() == f"found as {tool}\n"


def test_missing_work_dir_is_told_twice_and_tmp_taken(leader: FakeLeader) -> None:
    leader.launch("pwd", work_dir="/nosuch")
    line = "slurmstepd: error: couldn't chdir to `/nosuch': No such file or directory: going to /tmp instead\n"
    assert leader.out(STDERR) == 2 * line
    assert leader.out() == "/tmp\n"
    assert leader.status() == 0


def test_a_nul_in_a_word_is_an_error_of_that_task(leader: FakeLeader) -> None:
    leader.launch("echo", "a\0b")
    assert leader.status() == 22 << 8
    assert "Invalid argument" in leader.out(STDERR)


def test_limits_of_the_submitter(fork_server: ForkServer, run_dir: Path) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    limits = {"RLIMIT_NOFILE": (77, hard), "RLIMIT_CORE": (0, 0), "RLIMIT_FOREIGN": (1, 1)}
    write_spec(run_dir, rlimits=limits)
    agent = Agent(fork_server, run_dir)
    try:
        agent.leader.start()
        agent.leader.shell("ulimit -Sn; ulimit -Sc; ulimit -Hc")
        assert agent.leader.out() == "77\n0\n0\n"
    finally:
        agent.close()


# Files


def file_to(path: str, append: bool = False) -> dict[str, object]:
    return {"to": "file", "path": path, "append": append}


def test_batch_script_to_a_file(leader: FakeLeader) -> None:
    out = leader.run_dir / "slurm-7.out"
    out.write_text("old\n")
    where = file_to(str(out))
    leader.shell("echo out; echo err >&2; cat", step=BATCH, stdout=where, stderr=where, umask=0o077)
    assert leader.status(step=BATCH) == 0
    leader.told("drained", step=BATCH)
    assert out.read_text() == "out\nerr\n"
    assert leader.output == {}


def test_new_files_follow_the_umask(leader: FakeLeader) -> None:
    leader.shell("true", stdout=file_to("new"), umask=0o027)
    leader.told("drained", step=0)
    assert (leader.run_dir / "new").stat().st_mode & 0o777 == 0o640


def test_append(leader: FakeLeader) -> None:
    (leader.run_dir / "log").write_text("old\n")
    leader.shell("echo new", stdout=file_to("log", append=True))
    leader.told("drained", step=0)
    assert (leader.run_dir / "log").read_text() == "old\nnew\n"


def test_one_file_for_all_tasks_is_truncated_once(leader: FakeLeader) -> None:
    (leader.run_dir / "all").write_text("old\n")
    leader.shell("echo $SLURM_PROCID", tasks=3, stdout=file_to("all"))
    leader.told("drained", step=0)
    assert sorted((leader.run_dir / "all").read_text().splitlines()) == ["0", "1", "2"]


def test_each_task_has_its_file_and_reads_the_whole_input(leader: FakeLeader) -> None:
    (leader.run_dir / "in").write_text("hello\n")
    tasks = [
        {"rank": rank, "local": rank, "argv": ["cat"], "environment": {}, "stdout": file_to(f"out.{rank}")}
        for rank in (0, 1)
    ]
    leader.launch(step=0, stdin=file_to("in"), tasks=tasks)
    leader.told("drained", step=0)
    assert [(leader.run_dir / f"out.{rank}").read_text() for rank in (0, 1)] == ["hello\n", "hello\n"]


@pytest.mark.parametrize(("stream", "path"), [("stdout", "nosuch/out"), ("stderr", "."), ("stdin", "nosuch")])
def test_a_batch_file_that_cannot_be_opened(leader: FakeLeader, stream: str, path: str) -> None:
    leader.shell("echo never > ran", step=BATCH, **{stream: file_to(path)})  # type: ignore[arg-type]
    message = leader.told("exit", step=BATCH)
    assert (message["status"], message["failed"]) == (53, "open")
    assert message["text"].startswith(f"Could not open {stream} file {leader.run_dir}/{path}: ")
    leader.told("drained", step=BATCH)
    assert not (leader.run_dir / "ran").exists()


# Input and output through the leader


def test_input_to_all_tasks_and_its_end(leader: FakeLeader) -> None:
    leader.launch("cat", tasks=2, stdin={"to": "leader"})
    assert leader.link is not None
    leader.link.send_data(0, 0xFFFFFFFF, 0, b"to all\n")
    leader.feed(b"to one\n", rank=1)
    leader.link.send_data(0, 0xFFFFFFFF, 0, b"")
    assert leader.out(rank=0) == "to all\n"
    assert leader.out(rank=1) == "to all\nto one\n"
    credit = sum(message["bytes"] for message in leader.messages if message["do"] == "credit")
    assert credit == len("to all\n") + len("to one\n")


def test_input_that_nobody_reads_is_credited(leader: FakeLeader) -> None:
    leader.launch("true", stdin={"to": "leader"})
    for _ in range(4):
        leader.feed(b"x" * CHUNK)

    def credited() -> bool:
        return sum(message["bytes"] for message in leader.messages if message["do"] == "credit") == 4 * CHUNK

    leader.told("drained", step=0)
    leader.until(credited, "credit for all of the input")


def test_much_input_arrives_whole(leader: FakeLeader) -> None:
    leader.launch("md5sum", stdin={"to": "leader"})
    for _ in range(WINDOW // CHUNK):
        leader.feed(b"x" * CHUNK)
    leader.feed(b"")
    assert leader.out().split()[0] == hashlib.md5(b"x" * WINDOW).hexdigest()


def test_without_credit_a_task_waits_and_nothing_is_lost(leader: FakeLeader) -> None:
    leader.credit = False
    leader.shell("head -c 3000000 /dev/zero; echo done >&2")
    key = (0, 0, 1)
    leader.until(lambda: len(leader.output.get(key, b"")) == WINDOW, "a window of output")
    leader.shell("echo other", step=1)
    assert leader.out(step=1) == "other\n"  # other steps go on
    assert len(leader.output[key]) == WINDOW
    assert (0, 0, 2) not in leader.output
    leader.credit = True
    leader.send("credit", step=0, bytes=WINDOW, stream="out")
    assert len(leader.out()) == 3000000
    assert leader.out(STDERR) == "done\n"


def test_output_without_a_newline_and_binary(leader: FakeLeader) -> None:
    leader.launch("printf", "a\\377\\000b")
    leader.told("drained", step=0)
    assert leader.output[0, 0, 1] == b"a\xff\0b"


# Terminals


def test_a_terminal(leader: FakeLeader) -> None:
    leader.shell("tty; stty size; test -t 1 && echo is a tty; read x; echo got $x", pty=True, window=[33, 99])
    leader.until(lambda: b"is a tty" in leader.output.get((0, 0, 1), b""), "the terminal")
    leader.feed(b"hello\n")
    lines = leader.out().replace("\r", "").splitlines()
    assert lines[0].startswith("/dev/pts/")
    assert lines[1:] == ["33 99", "is a tty", "hello", "got hello"]


def test_a_terminal_changes_its_size_and_ends_with_ctrl_d(leader: FakeLeader) -> None:
    leader.shell("echo ready; cat; stty size", pty=True, window=[10, 20])
    leader.line()
    leader.send("window", step=0, rows=44, columns=55)
    leader.feed(b"")
    assert leader.out().replace("\r", "").endswith("44 55\n")


def test_ctrl_c_on_a_terminal_interrupts(leader: FakeLeader) -> None:
    leader.shell("trap 'echo caught; exit 5' INT; echo ready; while :; do sleep 0.1; done", pty=True)
    leader.line()
    leader.feed(b"\x03")
    assert leader.status() == 5 << 8
    assert "caught" in leader.out()
