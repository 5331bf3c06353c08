"""Containers in which tasks run on this machine: what the options of pyxis and --container ask for, and the command lines of the programs
that have images.

A task enters its container as enroot does it: in namespaces for users and mounts, and in no other. So a task's process is the program
inside: signals, exit codes, terminals, limits and usage are those of any task. An OCI bundle is run by crun or runc, as its
``config.json`` says.
"""

from __future__ import annotations

from shim.core.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

# The programs that can get an image by its name; the first one that is there is used.
FETCHERS = ("enroot", "podman", "docker", "apptainer", "singularity")
UNPACKER = "unsquashfs"  # of squashfs-tools, for the files that enroot makes
RUNTIMES = ("runc", "crun")
SCRIPT_FOLDER = "/run/slurm"  # where the batch script is in a container
_NEEDS_UNPACKER = ("enroot",)
_SCHEMES = ("docker", "dockerd", "podman")
_DEFAULT_REGISTRY = "docker.io"
_BUNDLE_IS_IN = "container"  # the option of Slurm itself


class ContainerError(Exception):
    """A container that cannot be had. The argument says why, as it is told behind ``error: ``."""


class Mount(Value):
    """``target`` is absolute. ``flags``: of those that were written ``ro``, ``rw`` … (those about propagation have no effect: there is none)."""

    source: str
    target: str
    read_only: bool = False


class Image(Value):
    """What an image says of the programs in it: its variables as ``NAME=value``, a working directory, the words before a command."""

    environment: tuple[str, ...] = ()
    work_dir: str = ""
    entrypoint: tuple[str, ...] = ()


def wants_image(options: Mapping[str, str]) -> bool:
    """Whether the task is to run in a container that is made here of an image, or kept under a name."""
    return bool(options.get("container-image") or options.get("container-name"))


def wants_bundle(options: Mapping[str, str]) -> bool:
    """Whether the task is to be run by an OCI runtime."""
    return bool(options.get(_BUNDLE_IS_IN))


def is_file(image: str) -> bool:
    """Whether it is the path of a squashfs file, as pyxis tells it from a name."""
    return image.startswith((".", "/"))


def missing(options: Mapping[str, str], which: Callable[[str], str | None]) -> str | None:
    """Why what is asked for cannot be had with the programs that ``which`` finds; None: it can."""
    if wants_bundle(options) and wants_image(options):
        return "--container and --container-image exclude each other: a task runs in one container"
    if wants_bundle(options):
        return None if runtime(which) else _nothing_of("--container=BUNDLE", "to run OCI bundles", RUNTIMES)
    image = options.get("container-image", "")
    if not image:
        return None
    if is_file(image):
        return (
            None if which(UNPACKER) else _nothing_of("--container-image=FILE", "to unpack squashfs files", (UNPACKER,))
        )
    return None if fetcher(image, which) else _nothing_of("--container-image", "to get an image by its name", FETCHERS)


def _nothing_of(option: str, purpose: str, names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"{option} needs a program {purpose}: {names[0]} is not on PATH"
    return f"{option} needs a program {purpose}: none of {', '.join(names[:-1])} and {names[-1]} is on PATH"


def fetcher(image: str, which: Callable[[str], str | None]) -> tuple[str, str] | None:
    """Name and path of the program that gets the image; None: there is none."""
    scheme = image.partition("://")[0] if "://" in image else ""
    only = {"dockerd": ("docker",), "podman": ("podman",)}.get(scheme, FETCHERS)
    for name in only:
        path = which(name)
        if path and (name not in _NEEDS_UNPACKER or which(UNPACKER)):
            return name, path
    return None


def runtime(which: Callable[[str], str | None]) -> tuple[str, str] | None:
    """Name and path of the OCI runtime; None: there is none."""
    for name in RUNTIMES:
        path = which(name)
        if path:
            return name, path
    return None


def registry_names(image: str) -> list[str]:
    """``nvcr.io#nvidia/pytorch:25.01-py3`` as podman and docker write it; several where a name may be of this machine or of the
    registry that enroot means by saying none. ContainerError for a text that names no image.
    """
    scheme, separator, rest = image.partition("://")
    if not separator:
        scheme, rest = "docker", image
    if scheme not in _SCHEMES or not rest:
        raise ContainerError(
            f'bad image "{image}": [docker://][USER@][REGISTRY#]IMAGE[:TAG] or the path of a .sqsh file is wanted'
        )
    registry, hash_mark, name = rest.partition("#")
    if hash_mark:
        registry = registry.rpartition("@")[2]  # whose password it is the program knows by its own login
        return [f"{registry}/{name}"]
    before, at, behind = rest.partition("@")
    name = behind if at and not behind.startswith("sha256:") else rest
    first = name.partition("/")[0]
    if "/" in name and ("." in first or ":" in first or first == "localhost"):
        return [name]  # written as docker has it
    library = name if "/" in name else f"library/{name}"
    return [f"localhost/{name}", name, f"{_DEFAULT_REGISTRY}/{library}"]


def enroot_uri(image: str) -> str:
    """The image as ``enroot import`` takes it."""
    return image if "://" in image else f"docker://{image}"


def fetch_argv(name: str, path: str, image: str, target: str) -> list[str]:
    """The command line with which enroot, apptainer or singularity puts the image at ``target``: a squashfs file, or a folder."""
    if name == "enroot":
        return [path, "import", "--output", target, enroot_uri(image)]
    return [path, "build", "--sandbox", target, f"docker://{registry_names(image)[-1]}"]


def unpack_argv(path: str, file: str, target: str) -> list[str]:
    """The command line that unpacks a squashfs file into the new folder ``target``."""
    return [path, "-no-progress", "-no-xattrs", "-dest", target, file]


def mounts(text: str, work_dir: str) -> list[Mount]:
    """``SRC:DST[:FLAGS][,…]``, as pyxis reads them: a SRC alone is mounted at its own path. ContainerError.

    A relative SRC is below ``work_dir``.
    """
    found = []
    for one in filter(None, text.split(",")):
        source, _, rest = one.partition(":")
        target, _, flags = rest.partition(":")
        if not source or not (target or source).startswith("/"):
            raise ContainerError(f'bad --container-mounts "{one}": SRC:DST[:FLAGS] with an absolute DST is wanted')
        if not source.startswith("/"):
            source = f"{work_dir.rstrip('/')}/{source}"
        found.append(Mount(source=source, target=target or source, read_only="ro" in flags.split("+")))
    return found


def container_name(text: str) -> tuple[str, str]:
    """The name, and the flag behind it: ``name:exec`` must be there already, ``name:create`` must not. ContainerError."""
    name, _, flag = text.partition(":")
    if not name or not name.replace("-", "").replace("_", "").replace(".", "").isalnum() or name[0] == ".":
        raise ContainerError(f'bad --container-name "{text}": letters, digits, "-", "_" and "." are wanted')
    if flag not in ("", "auto", "create", "exec", "no_exec"):
        raise ContainerError(f'bad --container-name "{text}": auto, create, exec or no_exec is wanted behind the colon')
    return name, flag


def environment(task: Mapping[str, str], image: Image, kept: str) -> dict[str, str]:
    """The task's variables in the container: the image's win, but for those named in ``kept`` (--container-env)."""
    names = set(kept.split(",")) & set(task)
    found = dict(task)
    for line in image.environment:
        name, equals, value = line.partition("=")
        if equals and name and name not in names:
            found[name] = value
    if "PYTORCH_VERSION" in found:  # as pyxis has it
        for name, rank in (("RANK", "SLURM_PROCID"), ("LOCAL_RANK", "SLURM_LOCALID")):
            if rank in found:
                found[name] = found[rank]
    return found


def image_of_config(config: Mapping[str, Any]) -> Image:
    """What the image's ``Config`` says, as ``podman image inspect`` and ``docker image inspect`` print it."""
    return Image(
        environment=tuple(map(str, config.get("Env") or ())),
        work_dir=str(config.get("WorkingDir") or ""),
        entrypoint=tuple(map(str, config.get("Entrypoint") or ())),
    )


def image_of_enroot(environment_text: str, rc: str) -> Image:
    """What enroot leaves in an image's file: ``/etc/environment``, and the directory that ``/etc/rc`` enters."""
    work_dir = ""
    for line in rc.splitlines():
        words = line.split(" && ")[0].strip()
        if words.startswith("cd "):
            work_dir = words[3:].strip().strip("\"'")
            break
    lines = [line for line in environment_text.splitlines() if "=" in line and not line.lstrip().startswith("#")]
    return Image(environment=tuple(lines), work_dir=work_dir)


def image_of_apptainer(exports: str) -> Image:
    """What apptainer leaves of an image's variables (``.singularity.d/env/10-docker2singularity.sh``)."""
    lines = []
    for line in exports.splitlines():
        name, equals, value = line.strip().partition("=")
        if not equals or not name.startswith("export "):
            continue
        name, value = name[len("export ") :].strip(), value.strip()
        if value[:1] == value[-1:] == '"' and len(value) > 1:
            value = value[1:-1]
        default = f"${{{name}:-"
        if value.startswith(default) and value.endswith("}"):
            value = value[len(default) : -1].strip("\"'")
        lines.append(f"{name}={value}")
    return Image(environment=tuple(lines))


def with_user(passwd: str, line: str) -> str:
    """The text of /etc/passwd or /etc/group with ``line``, unless its number has a name there."""
    number = line.split(":")[2]
    lines = passwd.splitlines()
    if all(one.split(":")[2:3] != [number] for one in lines):
        lines.append(line)
    return "\n".join(lines) + "\n"


def bundle_config(
    config: Mapping[str, Any],
    bundle: str,
    argv: Sequence[str],
    task: Mapping[str, str],
    script: str,
    ids: tuple[int, int] = (0, 0),
) -> dict[str, Any]:
    """The bundle's ``config.json`` for one task, as Slurm makes it: its root where the bundle is, the task's words and variables in
    place of the bundle's own; its working directory stays. ``script``: the batch script's file, to be mounted; "" for a step.
    ``ids``: who runs it, of whom a user namespace that maps nobody is to have root's.
    """
    process = dict(config.get("process") or {})
    root = dict(config.get("root") or {})
    path = str(root.get("path") or "rootfs")
    root["path"] = path if path.startswith("/") else f"{bundle.rstrip('/')}/{path}"
    own = [str(line) for line in process.get("env") or ()]
    process["env"] = [f"{name}={value}" for name, value in environment(task, Image(environment=tuple(own)), "").items()]
    process["args"] = list(argv)
    process["terminal"] = False  # the task's streams, which may be a terminal, are the program's
    process.pop("consoleSize", None)
    made = {**config, "process": process, "root": root}
    linux = dict(config.get("linux") or {})
    if any(one.get("type") == "user" for one in linux.get("namespaces") or ()):
        for kind, own_id in zip(("uidMappings", "gidMappings"), ids):
            linux[kind] = linux.get(kind) or [{"containerID": 0, "hostID": own_id, "size": 1}]
        made["linux"] = linux
    if script:
        target = f"{SCRIPT_FOLDER}/{script.rpartition('/')[2]}"
        own_mounts = list(config.get("mounts") or ())
        made["mounts"] = [
            *own_mounts,
            {"destination": target, "source": script, "type": "bind", "options": ["rbind", "ro"]},
        ]
        process["args"] = [target, *argv[1:]]
    return made


def runtime_argv(name: str, path: str, folder: str, identifier: str) -> list[str]:
    """The command line that runs the bundle in ``folder`` in the foreground. What the runtime notes of it is in that folder."""
    options = ["--cgroup-manager=disabled"] if name == "crun" else ["--rootless=true"]
    return [path, f"--root={folder}/state", *options, "run", f"--bundle={folder}", identifier]
