"""Mails of jobs reach a real SMTP server, from sbatch's option to the message."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from email.message import Message
from pathlib import Path

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.handlers import Message as Handler

from tests.control.controller import processes
from tests.support import wait_until

OURS = Path(__file__).parents[2] / "bin"


class Sink(Handler):
    """Keeps what it is sent; refuses whoever is called nobody."""

    def __init__(self) -> None:
        super().__init__()
        self.mails: list[Message] = []

    async def handle_RCPT(self, server, session, envelope, address, options):  # type: ignore[no-untyped-def]
        if address.startswith("nobody@"):
            return "550 no such user"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    def handle_message(self, message: Message) -> None:
        self.mails.append(message)


@pytest.fixture
def sink() -> Iterator[tuple[Sink, int]]:
    handler = Sink()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = Controller(handler, hostname="127.0.0.1", port=port)
    server.start()  # type: ignore[no-untyped-call]
    try:
        yield handler, port
    finally:
        server.stop()  # type: ignore[no-untyped-call]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Writes the words of the one cluster."""

    def write(words: str) -> None:
        (tmp_path / "shim.toml").write_text(f"[clusters.local]\nnodes = 1\ncpus = 2\n{words}\n")

    monkeypatch.setenv("SHIM_CONFIG", str(tmp_path / "shim.toml"))
    monkeypatch.setenv("SHIM_PYTHON", sys.executable)
    monkeypatch.setenv("PATH", f"{OURS}:/usr/bin:/bin")
    monkeypatch.chdir(tmp_path)
    with processes.ended_afterwards():
        yield write


def said(*words: str, code: int = 0) -> tuple[str, str]:
    done = subprocess.run(words, capture_output=True, timeout=120, check=False, text=True)
    assert done.returncode == code, done
    return done.stdout, done.stderr


def test_a_server_takes_the_mails_of_a_job(sink: tuple[Sink, int], site: Callable[[str], None]) -> None:
    box, port = sink
    site(f'mail_server = "127.0.0.1:{port}"\nmail_domain = "example.org"')
    wanted = ("--mail-type=BEGIN,END", "--mail-user=ann,bob@elsewhere.example")
    out, err = said("sbatch", "--parsable", "-W", "-J", "ünï\nBcc: eve", *wanted, "--wrap", "true")
    job, head = out.strip(), f"Slurm Job_id={out.strip()} Name=ünï?Bcc: eve "
    assert err == ""
    wait_until(lambda: len(box.mails) == 2, "two mails")
    begun, ended = sorted(box.mails, key=lambda mail: "Ended" in subject(mail))
    assert subject(begun).startswith(f"{head}Began, Queued time ")
    assert subject(ended).startswith(f"{head}Ended, Run time ") and subject(ended).endswith(", COMPLETED, ExitCode 0")
    assert ended["From"] == "slurm@example.org" and ended["Bcc"] is None and not ended.get_payload().strip()
    assert ended["X-RcptTo"] == "ann@example.org, bob@elsewhere.example"
    assert said("scontrol", "show", "config")[0].count("MailDomain              = example.org\n") == 1
    assert f"JobId={job}" in said("scontrol", "show", "job", job)[0]


def test_a_mail_that_is_not_taken_costs_the_job_nothing_and_is_logged(
    sink: tuple[Sink, int], site: Callable[[str], None], state_dir: Path
) -> None:
    box, port = sink
    site(f'mail_server = "127.0.0.1:{port}"\nmail_domain = "example.org"')
    said("sbatch", "-W", "--mail-type=END", "--mail-user=nobody", "--wrap", "true")
    (log,) = state_dir.glob(f"{os.uname().nodename}/controller.log")
    wait_until(
        lambda: f"mail by 127.0.0.1:{port}: " in log.read_text() and "no such user" in log.read_text(),
        "the refusal in the log",
    )
    assert not box.mails


def test_without_a_way_to_send_mail_the_submitter_is_told_once(site: Callable[[str], None]) -> None:
    site("")
    told = "sbatch: --mail-type: no mail will be sent: the configuration names neither mail_prog (MailProg) nor mail_server\n"
    out, err = said("sbatch", "--parsable", "-H", "--mail-type=END", "--wrap", "true")
    assert (out.strip().isdecimal(), err) == (True, told)
    assert said("sbatch", "-H", "--mail-type=NONE", "--wrap", "true")[1] == ""
    assert said("srun", "-n1", "--mail-type=END", "true")[1] == told.replace("sbatch", "srun")
    site('mail_prog = "/bin/true"')
    assert said("sbatch", "-H", "--mail-type=END", "--wrap", "true")[1] == ""


@pytest.mark.parametrize("text", ["", "host:", ":25", "host:0", "host:65536", "a b", "-x", "::1", "[::1]x", "[::1]:y"])
def test_a_server_that_is_none_is_refused_by_name(text: str, site: Callable[[str], None]) -> None:
    site(f'mail_server = "{text}"')
    if text:
        assert f'mail_server: bad value "{text}": HOST or HOST:PORT is wanted' in said("sinfo", code=1)[1]
    else:
        said("sinfo")


def subject(mail: Message) -> str:
    import email.header

    return str(email.header.make_header(email.header.decode_header(mail["Subject"])))
