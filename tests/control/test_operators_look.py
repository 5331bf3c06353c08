"""A named operator sees the jobs of another user's controller: what a listing prints of them, and no file, script or variable."""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from shim.commands import entrypoint
from shim.control import asked_index, operators, paths
from shim.control.controller.listening import listen_to_operators
from shim.control.index.query import JobQuery
from shim.control.index.reader import Reader
from shim.control.protocol import PROTOCOL
from tests.other_user import MALLORY, USER, free_uid, needs_root, run_as

OPERATOR = free_uid(MALLORY + 1)
CONFIGURATION = """
operators = ["ann"]
[clusters.field]
nodes = 3
cpus = 2
"""
COMMANDS = {
    "squeue": ["-h", "-o", "%i %j %u %T"],
    "sinfo": ["-h", "-o", "%P %D %c"],
    "sacct": ["-a", "-n", "-X", "-P", "-o", "jobid,jobname,state"],
    "scontrol": ["-o", "show", "job", "1"],
}


def names(monkeypatch: pytest.MonkeyPatch) -> None:
    """The accounts of three users that are none of this machine's."""
    known = {USER: "owner", OPERATOR: "ann", MALLORY: "mallory"}
    found = pwd.getpwuid

    def getpwuid(uid: int) -> pwd.struct_passwd:
        if uid not in known:
            return found(uid)
        return pwd.struct_passwd((known[uid], "x", uid, uid, "", "/", "/bin/sh"))

    monkeypatch.setattr(pwd, "getpwuid", getpwuid)


@pytest.fixture(params=[USER, 0], ids=["a user's", "root's"])
def owner(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Whose controller it is: one serves, with one job that is held, in a home into which nobody else can look."""
    for program, argv in COMMANDS.items():
        entrypoint.run(program, argv)  # what they load is loaded: the other users may not be able to read it
    uid: int = request.param
    base = Path(tempfile.mkdtemp(prefix="shim-operators-"))
    base.chmod(0o755)
    home = base / "home"
    (home / "config" / "shim").mkdir(parents=True)
    (home / "config" / "shim" / "config.toml").write_text(CONFIGURATION)
    for folder in (home, home / "config", home / "config" / "shim", home / "config" / "shim" / "config.toml"):
        os.chown(folder, uid, uid)
    home.chmod(0o700)
    names(monkeypatch)
    monkeypatch.setenv("SHIM_STATE_DIR", str(home / "state"))
    monkeypatch.setenv("HOME", str(base / "nobody"))  # no configuration of the operator's
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    with serving(uid, home):
        yield uid
    shutil.rmtree(base)


@contextmanager
def serving(uid: int, home: Path) -> Iterator[None]:
    """A controller of that user, that operators reach, in a process of its own."""
    wait, ready = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            os.environ["XDG_CONFIG_HOME"] = str(home / "config")
            asyncio.run(serve(lambda: os.write(ready, b"!")))
        finally:
            os._exit(1)
    os.close(ready)
    try:
        assert os.read(wait, 1) == b"!"
        yield
    finally:
        os.close(wait)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


async def serve(ready: Callable[[], object]) -> None:
    import time

    from shim.control.controller.configured import Configured
    from shim.control.controller.controller import Controller
    from shim.control.index.opening import open_store
    from shim.core.model.job import Job
    from shim.core.model.request import JobRequest
    from tests.control.controller.fakes import FakeBackend

    configured = Configured()
    store = open_store(paths.index_path())
    request = JobRequest(name="secretive", hold=True, export="ALL,TOKEN=hidden")
    job = Job(
        cluster="field",
        job_id=1,
        uid=os.getuid(),
        user="owner",
        request=request,
        held="user",
        partition="debug",
        submit_time=time.time() - 5,
        eligible_time=time.time() - 5,
    )
    store.add_job(job, token="a-token")
    controller = Controller(
        store, configured.clusters, lambda cluster: FakeBackend(cluster), time.time, 60.0, configured
    )
    await controller.open()
    await controller.server.open(listen_to_operators(paths.state_dir()))
    ready()
    await asyncio.Event().wait()


def said(uid: int, program: str, argv: list[str]) -> str:
    def command() -> None:
        entrypoint.run(program, argv)

    return run_as(uid, command)


@needs_root
def test_what_an_operator_sees(owner: int) -> None:
    assert said(OPERATOR, "squeue", COMMANDS["squeue"]) == "1 secretive owner PENDING\n"
    assert said(OPERATOR, "sinfo", COMMANDS["sinfo"]) == "debug* 3 2\n"
    assert said(OPERATOR, "sacct", COMMANDS["sacct"]) == "1|secretive|PENDING\n"
    shown = said(OPERATOR, "scontrol", COMMANDS["scontrol"])
    assert shown.startswith("JobId=1 JobName=secretive UserId=owner(")
    assert said(OPERATOR, "scancel", ["-v", "-n", "secretive"]) == "scancel: Terminating job 1\n"
    assert said(OPERATOR, "squeue", COMMANDS["squeue"]) == ""


@needs_root
@pytest.mark.parametrize("program", sorted(COMMANDS))
def test_who_is_no_operator_is_told_so(owner: int, program: str) -> None:
    assert said(MALLORY, program, COMMANDS[program]) == (
        f"{program}: error: Access/permission denied\n"
        f"{program}: error: you are no operator here: the user whose jobs these are names them in the configuration (operators)\n"
    )


@needs_root
def test_scripts_variables_and_tokens_are_in_no_answer(owner: int) -> None:
    def answers() -> None:
        for question in ("jobs", "job", "orders", "tokens", "meta"):
            refused = paths.anothers()
            assert refused is not None
            found = operators.reach("look", refused)
            found.send({"protocol": PROTOCOL, "op": "look", "question": question, "query": {}, "job_id": 1})
            print(found.receive())
        refused = paths.anothers()
        assert refused is not None
        found = operators.reach("look", refused)
        found.send({"protocol": PROTOCOL, "op": "script", "job_id": 1})
        print(found.receive()["lines"])

    text = run_as(OPERATOR, answers)
    assert text.count("secretive") == 2 and "hidden" not in text and "a-token" not in text
    assert text.count("there is none such") == 3
    assert text.endswith("['error: Access/permission denied', 'error: script is not for operators']\n")


@needs_root
def test_without_a_controller_nothing_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    entrypoint.run("squeue", ["-h"])
    base = Path(tempfile.mkdtemp(prefix="shim-operators-"))
    base.chmod(0o755)
    (base / "home").mkdir(mode=0o700)
    monkeypatch.setenv("SHIM_STATE_DIR", str(base / "home" / "state"))
    text = said(OPERATOR, "squeue", ["-h"])
    assert f"cannot be looked at: {base / 'home'} belongs to user root" in text
    assert "no controller of that user listens to operators: it must run" in text
    shutil.rmtree(base)


def test_every_question_of_the_index_is_asked() -> None:
    """None falls through to a file that is not there."""
    own = {name for name in vars(Reader) if not name.startswith("_")} - {"steps", "decoded", "live", "path"}
    assert own <= set(vars(asked_index.AskedReader))


def test_questions_are_answered_as_by_the_index(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from typing import Any

    from shim.control.controller.operations import looking
    from shim.control.index.opening import open_store
    from shim.control.index.reader import open_reader
    from shim.core import jsonlite
    from shim.core.model.job import Job, Step

    class Kept:
        def __init__(self, tell: Callable[[dict[str, Any]], None]) -> None:
            self._tell = tell

        async def send(self, message: dict[str, Any]) -> None:
            self._tell(jsonlite.loads(jsonlite.dumps(message)))

    def call(op: str, fields: dict[str, Any], on_event: Any = None) -> dict[str, Any]:
        sent = jsonlite.loads(jsonlite.dumps(fields))
        reply = asyncio.run(looking.look(path, Kept(on_event), sent))  # type: ignore[arg-type]
        return dict(jsonlite.loads(jsonlite.dumps(reply)))

    path = str(tmp_path / "state" / "index.db")
    monkeypatch.setenv("SHIM_STATE_DIR", str(tmp_path))
    monkeypatch.setattr(operators, "ask", call)
    monkeypatch.setattr(looking, "AT_ONCE", 2)
    store = open_store(path)
    jobs = [
        store.add_job(Job(job_id=number, state="RUNNING", array_job_id=number // 4 * 4, submit_time=number))
        for number in range(1, 6)
    ]
    store.transition(jobs[0], "PENDING", 7.0)
    store.save_step(jobs[0].key, Step(job_id=1, step_id="0"))
    reader, asked = open_reader(path), asked_index.AskedReader()
    assert reader is not None
    query = JobQuery(active=False)
    assert asked.jobs(query) == reader.jobs(query) and len(asked.jobs(query)) == 5
    assert [asked.decoded(line[0], line[-1]) for line in asked.outlines(query)] == reader.jobs(query)
    assert [line[:-1] for line in asked.outlines(query)] == [line[:-1] for line in reader.outlines(query)]
    assert asked.labels() == reader.labels() != [] and asked.spans(0.0, gpus=True) == reader.spans(0.0, gpus=True)
    assert asked.first_submission("local") == reader.first_submission("local")
    assert asked.array("local", 4) == reader.array("local", 4) != []
    assert asked.job(None, 3) == reader.job(None, 3) and asked.job("other", 3) is None
    assert asked.steps(jobs) == reader.steps(jobs) != []
    assert asked.step(jobs[0], "0") == reader.step(jobs[0], "0") and asked.step(jobs[1], "0") is None
    assert asked.transitions([jobs[0].key]) == reader.transitions([jobs[0].key])
    assert (asked.active(), asked.last_job_id(), asked.pruned()) == (True, reader.last_job_id(), 0)
    assert asked.cluster("local") is None and asked.changes("local") == {} and asked.troubles() == []
