"""`shim controller start|stop|status`. Commands start the controller by themselves; this is for looking and for stopping."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import Annotated

import typer

from shim.control.channel import Channel
from shim.core.errors import ShimError
from shim.core.formats.times import stamp

_PATIENCE = 5.0  # seconds for a controller that was told to end

app = typer.Typer(help="Looks at the controller, starts it, stops it.", no_args_is_help=True)


@app.command()
def start() -> None:
    """Starts the controller unless it runs."""
    from shim.control import client

    typer.echo(f"controller runs with pid {client.call('ping', {})['pid']}")


@app.command()
def stop(
    now: Annotated[bool, typer.Option("--now", help="Stop even with active jobs: they go on, unwatched.")] = False,
) -> None:
    """Stops the controller; running jobs go on and are found again by the next one."""
    from shim.control import channel, client, paths

    found = channel.connect(paths.socket_path())
    if found is None:
        typer.echo("no controller is running")
        return
    try:
        if now and found.stopped():
            _end(found)
        else:
            client.call("shutdown", {"now": now})
    finally:
        found.close()
    typer.echo("controller stopped")


def _end(found: Channel) -> None:
    """Ends a stopped controller: with SIGTERM, then with SIGKILL."""
    for number, seconds in ((signal.SIGTERM, _PATIENCE), (signal.SIGKILL, None)):
        with suppress(ProcessLookupError):
            os.kill(found.pid, number)
            os.kill(found.pid, signal.SIGCONT)
        if found.ends(seconds):
            return


@app.command()
def status() -> None:
    """Says whether the controller runs (exit code 0) or not (1)."""
    from shim.control import client, paths

    if not client.alive():
        typer.echo(f"no controller is running for {paths.state_dir()}")
        raise typer.Exit(1)
    try:
        answer = client.call("ping", {})
    except ShimError as problem:
        typer.echo(f"the controller does not answer: {problem}")
        raise typer.Exit(1) from problem
    typer.echo(f"controller runs with pid {answer['pid']} for {paths.state_dir()}")
    told = _processes(int(answer["pid"]))
    if told:
        typer.echo(told)


def _processes(pid: int) -> str:
    """The controller's start time, and the number and memory of its processes: the fork server, and agents that still are its children."""
    import psutil

    try:
        first = psutil.Process(pid)
        since = stamp(first.create_time())
        sizes = [process.memory_info().rss for process in (first, *first.children(recursive=True))]
    except psutil.Error:
        return ""  # it has just ended
    return f"since {since}: {len(sizes)} process{'es' if len(sizes) > 1 else ''}, {sum(sizes) >> 20} MiB of memory"
