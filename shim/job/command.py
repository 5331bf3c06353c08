"""What a command that runs inside a job asks the job's leader, where no controller can be asked."""

from __future__ import annotations

from shim.job.address import read_address
from shim.job.link import SessionLink
from shim.job.loop import Loop
from shim.job.session import open_session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Message = dict[str, Any]


def ask(run_dir: str, key: bytes, message: Message, patience: float) -> list[Message]:
    """What the leader of the run answers within ``patience`` seconds, up to the message ``done``. OSError or ValueError: there is none (any more)."""
    loop = Loop()
    answers: list[Message] = []
    lost: list[str] = []

    def arrived(answer: Message) -> None:
        answers.append(answer)
        if answer["do"] == "done":
            loop.stop()

    def gone(why: str) -> None:
        lost.append(why)
        loop.stop()

    try:
        link = SessionLink(open_session(loop, read_address(run_dir), key, "command"))
        link.on_message = arrived
        link.on_close = gone
        link.send(message)
        loop.call_later(patience, lambda: gone("no answer"))
        loop.run()
        link.close()
    finally:
        loop.close()
    if lost:
        raise OSError(lost[0])
    return answers[:-1]
