"""The options that plugins add to a site's sbatch, srun and salloc. Most sites have none: imported where there are some."""

from __future__ import annotations

from shim.core.options.getopt import FLAG, IGNORED, OPTIONAL, Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Sequence, Tuple

    from shim.core.options.getopt import Row
    from shim.core.options.grammar import Grammar
else:
    Row = dict

# The options of the container plugin pyxis; Slurm puts those of plugins behind its own.
# fmt: off
PYXIS: Tuple[Row, ...] = (
    Row(name="container-image", takes="=image", job="container_image", step="container_image", plugin=True,
        help="image of the container, or a squashfs file",
        support="honoured: got by enroot, podman, docker, apptainer or singularity, whichever is there (a .sqsh file: unsquashfs), unpacked once and entered as enroot does",
        kubernetes="honoured: the image of the job's pods; a step that asks for another one is refused"),
    Row(name="container-mounts", takes="=list", job="container_mounts", step="*container", plugin=True,
        help="mounts, as src:dst[:flags][,...]",
        support="approximated: mounted as it says; of the flags ro alone has an effect",
        kubernetes="approximated: nothing is mounted for it: targets that the configuration does not mount from there are refused"),
    Row(name="container-workdir", takes="=path", job="*container", step="*container", plugin=True,
        help="working directory in the container",
        kubernetes="approximated: recorded; the script begins in the job's working directory (--chdir)"),
    Row(name="container-name", takes="=name", job="*container", step="*container", plugin=True, help="name under which the container is kept",
        support="approximated: kept on this machine for each node, in the state folder, until somebody removes it",
        kubernetes="refused: each job gets new pods"),
    Row(name="container-save", takes="=path", plugin=True, help="save the container as a squashfs file",
        support="refused: containers are not written into squashfs files",
        kubernetes="refused: the file system of a pod is gone with it"),
    Row(name="container-mount-home", job="*container", step="*container", plugin=True, help="mount the home directory",
        kubernetes="inert: homes are mounted as the configuration says"),
    Row(name="no-container-mount-home", plugin=True, help="do not mount the home directory",
        support="inert: the default here",
        kubernetes="inert: homes are mounted as the configuration says"),
    Row(name="container-remap-root", job="*container", step="*container", plugin=True, help="be root in the container",
        support="honoured: the own id is root in the container; no other id is there",
        kubernetes="approximated: the pod's user is what the configuration says"),
    Row(name="no-container-remap-root", plugin=True, help="be oneself in the container",
        support="inert: the default here",
        kubernetes="approximated: the pod's user is what the configuration says"),
    Row(name="container-entrypoint", job="*container", step="*container", plugin=True, help="run the image's entry point",
        support="approximated: what podman or docker know of an image's entry point; not enroot's /etc/rc",
        kubernetes="refused: an image's entry point is not run"),
    Row(name="no-container-entrypoint", plugin=True, help="do not run the image's entry point",
        support="inert: the default here",
        kubernetes="inert: an image's entry point is not run"),
    Row(name="container-entrypoint-log", plugin=True, help="show what the entry point prints",
        support="inert: what an entry point prints is the task's output",
        kubernetes="inert: an image's entry point is not run"),
    Row(name="container-writable", plugin=True, help="the container can be written",
        support="inert: the default here",
        kubernetes="inert: a pod's own file system can be written"),
    Row(name="container-readonly", job="*container", step="*container", plugin=True, help="the container cannot be written",
        kubernetes="inert: a pod's own file system can be written, and is gone with it"),
    Row(name="container-env", takes="=names", job="*container", step="*container", plugin=True,
        help="variables of the job that win over the image's",
        kubernetes="approximated: recorded; the job's variables win over the image's, as --export says"),
)
# fmt: on


def unknown_containers(word: str, argv: Sequence[str], looked: bool) -> List[str]:
    """What to do about an option of pyxis that is unknown here because nobody has configured the plugin; [] for another ``word``.
    ``looked``: nothing is configured at all, and no program for containers was found.

    All such options of ``argv`` are named at once: whoever leaves out one is not to meet the next.
    """
    known = {row["name"]: row for row in PYXIS}
    names = [one[2:].partition("=")[0] for one in (word, *argv) if one.startswith("--")]
    asked = [name for name in dict.fromkeys(names) if name in known]
    if word[2:].partition("=")[0] not in known:
        return []
    why = "which is not configured here: [plugins] pyxis = true"
    if looked:
        from shim.core.container import FETCHERS, UNPACKER

        why = f"and there is no program for containers on PATH: none of {', '.join(FETCHERS)} and {UNPACKER}"
    ignored = ", ".join(f'"{name}="' if "takes" in known[name] else f'"{name}"' for name in asked)
    return [
        f"note: --{asked[0]} is an option of the container plugin pyxis, {why}",
        f"note: to run without one, on this machine's own programs: [plugins] ignore = [{ignored}] in ~/.config/shim/config.toml;"
        " where jobs are pods it names their image: [plugins] pyxis = true",
    ]


def with_plugins(rows: List[Row], command: str, grammar: Grammar) -> List[Row]:
    """The options of a command with those of a site's plugins behind them; of two of one name the configured one counts."""
    if grammar.pyxis:
        rows = [*rows, *PYXIS]
    own: List[Row] = []
    by_name = {row["name"]: row for row in rows}
    for long, arity, target in grammar.plugins:
        name, equals, value = target.partition("=")
        known = next((row for row in PYXIS if row["name"] == long), Row(name=long, help="an option of this site"))
        shown = known.get("takes", "").strip("[=]") or "value"
        takes = "" if arity == FLAG else f"[={shown}]" if arity == OPTIONAL else f"={shown}"
        added = Row(name=long, takes=takes, plugin=True, help=known["help"])
        if not target:
            added["kind"] = IGNORED
            added["support"] = "inert: accepted without effect, as the configuration says (plugins.ignore)"
        elif name in by_name:  # salloc has not all options of sbatch
            meant = Option(by_name[name])
            added["kind"], added["spelling_of"] = meant.kind, meant.field
            if equals:
                added["stands_for"] = value
        else:
            continue
        own.append(added)
    names = {row["name"] for row in own}
    return [row for row in rows if row["name"] not in names] + own
