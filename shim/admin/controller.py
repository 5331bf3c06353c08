"""`shim controller start|stop|status`. Commands start the controller by themselves; this is for looking and for stopping."""

from __future__ import annotations

from typing import Annotated

import typer

from shim.core.errors import ShimError

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
    from shim.control import client

    if not client.alive():
        typer.echo("no controller is running")
        return
    client.call("shutdown", {"now": now})
    typer.echo("controller stopped")


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
