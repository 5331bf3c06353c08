"""The `shim` command: what the Slurm commands do not do. Typer, because no grammar of Slurm's is needed here."""

from __future__ import annotations

import functools
import sys
from typing import Annotated

import typer

from shim import SLURM_VERSION, __version__
from shim.admin import controller as controller_commands
from shim.admin.sky import app as sky_commands
from shim.commands import output
from shim.core.errors import ShimError

app = typer.Typer(
    name="shim",
    help="Looks after the Slurm commands of this machine: what is configured, what works, what becomes of a script.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(controller_commands.app, name="controller")
app.add_typer(sky_commands.exports, name="export")
app.add_typer(sky_commands.imports, name="import")


def _tell_version(asked: bool) -> None:
    if asked:
        typer.echo(f"shim {__version__} (slurm {SLURM_VERSION})")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", "-V", help="Print the version and end.", is_eager=True, callback=_tell_version),
    ] = False,
) -> None:
    """What comes before every command."""


@app.command()
def doctor() -> None:
    """Tries what jobs need on this machine and says what works, what does not, and why."""
    from shim.admin.doctor import machine

    if not machine.report(sys.stdout):
        raise typer.Exit(1)


@app.command()
def config(
    origin: Annotated[bool, typer.Option("--origin", help="Also show where each value comes from.")] = False,
) -> None:
    """Shows the configuration in force."""
    from shim.admin import config as configuration

    configuration.report(sys.stdout, origin=origin)


@app.command()
def init(
    sources: Annotated[
        list[str] | None,
        typer.Argument(help="Scripts, or the slurm.conf of a site.", metavar="[SCRIPT... | slurm.conf]"),
    ] = None,
    show: Annotated[bool, typer.Option("--show", help="Only show it.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the configuration that is there.")] = False,
) -> None:
    """Writes the configuration that these scripts, or this site's slurm.conf, need, and shows it. From then on the cluster is strict."""
    from shim.admin import init as writer

    writer.report(sources or [], sys.stdout, show=show, force=force)


@app.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
def check(
    words: Annotated[
        list[str], typer.Argument(help="Batch scripts, after sbatch's options.", metavar="[SBATCH OPTIONS] SCRIPT...")
    ],
    recursive: Annotated[
        bool, typer.Option("--recursive", "-r", help="All batch scripts below the folder that is named.")
    ] = False,
    form: Annotated[str, typer.Option("--format", help="With -r: text, json, html or sarif.")] = "text",
    fail_on: Annotated[
        str, typer.Option(help="What exit code 1 is for: refused, waiting, failing, unread, approximated; never.")
    ] = "refused,waiting,failing",
) -> None:
    """Says of each script whether sbatch would refuse it, or it would wait for ever, or a line of it be refused when it runs."""
    from shim.admin import check as checks

    judge = functools.partial(checks.report_tree, form=form) if recursive else checks.report
    if not judge(words, sys.stdout, fail_on):
        raise typer.Exit(1)


@app.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
def explain(script: Annotated[list[str], typer.Argument(help="sbatch's options and a script.")]) -> None:
    """Says what becomes of each directive and option of a script here: honoured, approximated, inert or refused.

    With "-o yaml" first it prints the Kubernetes objects that the job would be.
    """
    from shim.admin import explain as explanation

    if not explanation.report(script, sys.stdout):
        raise typer.Exit(1)


@app.command()
def completion(
    shell: Annotated[
        str | None, typer.Argument(help="bash, fish or zsh; unless given the shell that runs this.", metavar="[SHELL]")
    ] = None,
) -> None:
    """Prints what a shell needs to complete options, partitions, nodes and jobs. In ~/.bashrc: `source <(shim completion bash)`."""
    import typer.main

    from shim.admin import completion as completions

    typer.echo(completions.script(shell, typer.main.get_command(app)), nl=False)


@app.command()
def man(command: Annotated[str, typer.Argument(help="sbatch, srun, … or shim.", metavar="COMMAND")] = "shim") -> None:
    """Shows the manual page of a command, with what differs from Slurm; prints its roff where there is no terminal or no man."""
    import typer.main

    from shim.admin import manual

    manual.show(command, typer.main.get_command(app), sys.stdout)


@app.command()
def why(
    job: Annotated[
        str, typer.Argument(help="Its id: 12, 12_3 of an array, 12+1 of a heterogeneous job.", metavar="JOB")
    ],
    lines: Annotated[int, typer.Option(help="How many lines of its error output are shown.", min=0)] = 10,
) -> None:
    """Says what keeps a job waiting, or how it ended: reason, last lines of its errors, what to do."""
    from shim.admin import why as reasons

    reasons.report(job, sys.stdout, lines)


@app.command()
def top(
    once: Annotated[bool, typer.Option("--once", help="Print one page as text, and end.")] = False,
) -> None:
    """Shows queue, nodes and one job on a page that keeps itself up to date; keys act on jobs (? lists them)."""
    from shim.admin.top import run

    if once:
        run.once(sys.stdout)
    else:
        raise typer.Exit(run.watch())


@app.command()
def move(
    job: Annotated[str, typer.Argument(help="The id of a pending job, or of a whole array.", metavar="JOB")],
    cluster: Annotated[str, typer.Argument(help="Where it is to run.", metavar="CLUSTER")],
) -> None:
    """Gives a pending job to another cluster: same script, directory and options; it never runs twice."""
    from shim.admin import move as mover

    mover.report(job, cluster, sys.stdout)


@app.command()
def fetch(
    job: Annotated[str, typer.Argument(help="The id of a running job: 12, 12_3 of an array.", metavar="JOB")],
) -> None:
    """Brings back what a running job has made or changed so far in its copy of the working directory. At its end that happens by itself."""
    from shim.commands import progress
    from shim.commands.job_ids import parse_job_id

    wanted = parse_job_id(job)
    if wanted is None:
        raise ShimError(f'error: "{job}" is no job id: 12 or 12_3 is wanted')
    task = int(wanted.tasks) if wanted.tasks and wanted.tasks.isdigit() else None
    with progress.on_terminal("shim") as shown:
        shown.begin(f"files of job {job} come")
        reply = shown.call("fetch", {"job_id": wanted.job_id, "task": task})
    if reply["ended"]:
        typer.echo("the job has ended: its files are here" + (f"; {reply['text']}" if reply["text"] else ""), err=True)
        return
    typer.echo(f"{reply['files']} files, {reply['bytes']} bytes")
    if reply["text"]:
        typer.echo(f"shim: {reply['text']}", err=True)


@app.command()
def prune(
    older_than: Annotated[
        int | None,
        typer.Option(help="Those that ended that many days ago; as configured (retention) unless given.", min=0),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say how many.")] = False,
) -> None:
    """Forgets jobs that ended long ago: sacct shows them no more. That also happens by itself. Their ids are never given out again."""
    from shim.control import client
    from shim.core.formats.times import stamp

    reply = client.call("prune", {"days": older_than, "dry_run": dry_run})
    jobs = f"{reply['jobs']} job{'' if reply['jobs'] == 1 else 's'}"
    done = "would forget" if dry_run else "forgot"
    typer.echo(f"{done} {jobs} that ended before {stamp(float(reply['before']))}")


@app.command()
def uninstall(
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")] = False,
) -> None:
    """Removes what the commands have left on this machine: state, configuration, completion, the controller; says what stays. Refuses while jobs run."""
    from shim.admin import uninstall as removal

    if not yes and not dry_run and not sys.stdin.isatty():
        raise ShimError("error: nobody can be asked here: --yes removes, --dry-run only tells")
    if not removal.report(sys.stdout, yes=yes, dry_run=dry_run, ask=typer.confirm):
        raise typer.Exit(1)


def main(argv: list[str]) -> int:
    """Runs the command with ``argv``; errors of ours are one line on stderr."""
    stdout = sys.stdout
    try:
        app(args=argv, prog_name="shim", standalone_mode=True)
    except ShimError as problem:
        output.say("shim", *problem.lines)
        return problem.code
    except SystemExit as end:
        if sys.stdout is not stdout:  # typer has put a silent one there, because nobody reads this one any more
            sys.stdout = stdout
            raise BrokenPipeError from None
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0
