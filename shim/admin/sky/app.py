"""`shim export sky` and `shim import sky`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

exports = typer.Typer(help="Writes batch scripts in other systems' form.", no_args_is_help=True)
imports = typer.Typer(help="Writes other systems' jobs as batch scripts.", no_args_is_help=True)


@exports.command("sky", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
def export_sky(
    words: Annotated[
        list[str], typer.Argument(help="sbatch's options and a script.", metavar="[SBATCH OPTIONS] SCRIPT [WORDS...]")
    ],
    gpu: Annotated[str | None, typer.Option("--gpu", help="The kind of GPU where the script names none: H100.")] = None,
) -> None:
    """Writes the SkyPilot task (of a heterogeneous job: the job group) that does what the script does, and says what it does not express."""
    from shim.admin.sky import exporting

    exporting.report(words, sys.stdout, gpu)


@imports.command("sky")
def import_sky(
    task: Annotated[str, typer.Argument(help="The task's YAML.", metavar="TASK.yaml")],
    partly: Annotated[bool, typer.Option("--partly", help="Leave out what no script expresses; it is named.")] = False,
) -> None:
    """Writes the batch script that does what the SkyPilot task (or job group) does, and says what it does not express."""
    from shim.admin.sky import importing

    importing.report(task, sys.stdout, partly)
