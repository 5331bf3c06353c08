"""A task's way into its container, between the task's fork and its execve.

The first task of a container makes it: a mount namespace (for users without privilege in a user namespace that maps their own id alone),
in it the image's files under a layer of the container's own, /proc, /sys and /dev of the machine, and what the options mount. The tasks behind it
join that namespace. It lives as long as a process is in it; nobody else holds it, so there is nothing that a killed agent could leave mounted.
"""

from __future__ import annotations

import os

from shim.core import container
from shim.core.container import ContainerError
from shim.core.jsonlite import dumps, loads
from shim.job import libc
from shim.job.container import images
from shim.job.container.tools import which

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from shim.core.container import Image

FOLDER = "containers"  # below the run's folder: its containers without a name
_LOCKED = (
    1 | 2 | 4 | 8 | 1024 | 2048
)  # flags of a mount that a user namespace may not take away: ro, nosuid, nodev, noexec, noatime, nodiratime
_TOKEN = f"{container.SCRIPT_FOLDER}/.container"


class ContainerPlace:
    """Where a task's container is. ``options``: by their names, as given. ``run_dir`` and ``step``: whose task it is. ``work_dir``: the
    task's outside. ``script``: the batch script's file, "" for a step's task.
    """

    __slots__ = ("options", "run_dir", "script", "step", "work_dir")

    def __init__(self, options: Mapping[str, str], run_dir: str, step: str, work_dir: str, script: str) -> None:
        self.options = dict(options)
        self.run_dir = run_dir
        self.step = step
        self.work_dir = work_dir
        self.script = script

    @property
    def state_dir(self) -> str:
        """The folder of all that is kept longer than the run."""
        return f"{os.path.dirname(os.path.dirname(self.run_dir))}/{FOLDER}"


def enter(
    place: ContainerPlace, argv: Sequence[str], environment: Mapping[str, str]
) -> tuple[list[str], dict[str, str], str]:
    """Puts the calling process into the container: the command line, the environment and the working directory of the task in it.

    ContainerError: it is in none, or half in; the process must end.
    """
    if container.wants_bundle(place.options):
        return _bundle(place, argv, dict(environment))
    try:
        image = _entered(place, environment)
    except OSError as error:
        raise ContainerError(
            f"{place.options.get('container-image', 'container')}: {error.strerror or error}"
        ) from None
    # From here on the files of the machine are out of reach, modules too.
    found = container.environment(environment, image, place.options.get("container-env", ""))
    if "container-remap-root" in place.options:
        found["HOME"] = "/root"
    words = list(argv)
    if place.script:
        words[0] = f"{container.SCRIPT_FOLDER}/{os.path.basename(place.script)}"
    if "container-entrypoint" in place.options:
        words = [*image.entrypoint, *words]
    return words, found, _work_dir(place.options.get("container-workdir", ""), image.work_dir)


def discard(run_dir: str, step: str) -> int | None:
    """Removes what the containers of a step of this node have left in the run's folder, in another process; its pid, None: there is nothing."""
    folder = f"{run_dir}/{FOLDER}/{step}"
    if not os.path.isdir(folder):
        return None
    pid = os.fork()
    if pid == 0:
        try:
            images.remove_tree(folder)
            for path in (f"{folder}.lock", f"{run_dir}/{FOLDER}"):
                try:
                    os.unlink(path) if path.endswith(".lock") else os.rmdir(path)
                except OSError:
                    continue  # other steps have theirs in it
        finally:
            os._exit(0)
    return pid


def _work_dir(asked: str, of_image: str) -> str:
    for folder in filter(None, (asked, of_image)):
        try:
            os.chdir(folder)
        except OSError as error:
            if folder == asked:
                raise ContainerError(f"couldn't chdir to --container-workdir={asked}: {error.strerror}") from None
        else:
            return folder
    os.chdir("/")
    return "/"


def _entered(place: ContainerPlace, environment: Mapping[str, str]) -> Image:
    name, flag = "", ""
    folder = f"{place.run_dir}/{FOLDER}/{place.step}"
    if place.options.get("container-name"):
        name, flag = container.container_name(place.options["container-name"])
        folder = f"{place.state_dir}/named/{environment.get('SLURMD_NODENAME', 'node')}/{name}"
    with images.locked(f"{folder}.lock"):
        there = os.path.exists(f"{folder}/state")
        if name and there and flag == "create":
            raise ContainerError(f"--container-name={name}:create: there is a container {name} already")
        if name and not there and (flag == "exec" or not place.options.get("container-image")):
            raise ContainerError(
                f"--container-name={name}: there is no such container here, and no --container-image to make it of"
            )
        if not there:
            image = place.options["container-image"]
            if container.is_file(image) and not image.startswith("/"):
                image = f"{place.work_dir}/{image}"
            unpacked = images.prepared(image, f"{place.state_dir}/images", environment, _say)
            _begin(folder, unpacked)
        with open(f"{folder}/state", encoding="utf-8") as file:
            unpacked = str(loads(file.read()))
        found = images.read(unpacked)
        if not _join(folder):
            _make(place, folder, unpacked, environment)
        return found


def _begin(folder: str, unpacked: str) -> None:
    images.remove_tree(folder)
    os.makedirs(folder, mode=0o700)
    for inner in ("upper", "work", "root"):
        os.mkdir(f"{folder}/{inner}", 0o755)
    os.symlink(f"{unpacked}/rootfs", f"{folder}/lower")
    with open(f"{folder}/state.new", "w", encoding="utf-8") as file:
        file.write(dumps(unpacked))
    os.rename(f"{folder}/state.new", f"{folder}/state")


def _say(line: str) -> None:
    os.write(2, os.fsencode(line + "\n"))


# The namespaces


def _join(folder: str) -> bool:
    """Whether a process is in the container's namespace, and this one now too."""
    try:
        with open(f"{folder}/token", encoding="ascii") as file:
            inode, token = file.read().split()
    except (OSError, ValueError):
        return False
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            if str(os.stat(f"/proc/{pid}/ns/mnt").st_ino) != inode:
                continue
            with open(f"/proc/{pid}/root{_TOKEN}", encoding="ascii") as file:
                if file.read() != token:
                    continue
            users, mounts = (os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in ("user", "mnt"))
        except OSError:
            continue  # it has ended, or is somebody else's
        if os.fstat(users).st_ino != os.stat("/proc/self/ns/user").st_ino:
            libc.setns(users, libc.CLONE_NEWUSER)
        libc.setns(mounts, libc.CLONE_NEWNS)
        os.close(users)
        os.close(mounts)
        return True
    return False


def _make(place: ContainerPlace, folder: str, unpacked: str, environment: Mapping[str, str]) -> None:
    """Enters new namespaces in which the container's files are the root."""
    options = place.options
    asked = container.mounts(options.get("container-mounts", ""), place.work_dir)
    home = environment.get("HOME", "")
    if "container-mount-home" in options and home.startswith("/"):
        asked.append(container.Mount(source=home, target=home))
    for one in asked:
        if not os.path.exists(one.source):
            raise ContainerError(f"--container-mounts: {one.source}: {os.strerror(2)}")
    _write_names(folder, f"{unpacked}/rootfs", "container-remap-root" in options)
    token = os.urandom(16).hex()
    _unshare("container-remap-root" in options)
    libc.mount("none", "/", libc.MS_REC | libc.MS_PRIVATE)
    root = f"{folder}/root"
    _mount_root(folder, root)
    for path in ("/proc", "/sys", "/dev"):
        _bind(path, root, path)
    run = _target(root, "/run", True)
    libc.mount("tmpfs", run, 0, "tmpfs", "mode=0755")
    os.mkdir(f"{run}/slurm", 0o755)
    with open(f"{root}{_TOKEN}", "w", encoding="ascii") as file:
        file.write(token)
    if place.script:
        _bind(place.script, root, f"{container.SCRIPT_FOLDER}/{os.path.basename(place.script)}", read_only=True)
    for source, path in (
        ("/etc/hosts", "/etc/hosts"),
        ("/etc/resolv.conf", "/etc/resolv.conf"),
        (f"{folder}/passwd", "/etc/passwd"),
        (f"{folder}/group", "/etc/group"),
    ):
        if os.path.exists(source):
            _bind(source, root, path)
    for mount in asked:
        _bind(mount.source, root, mount.target, mount.read_only)
    if "container-readonly" in options:
        _make_read_only(root)
    inode = os.stat("/proc/self/ns/mnt").st_ino
    with open(f"{folder}/token", "w", encoding="ascii") as file:
        file.write(f"{inode} {token}")
    os.chdir(root)
    libc.pivot_root()


def _unshare(remap: bool) -> None:
    uid, gid = os.geteuid(), os.getegid()
    if uid == 0:
        try:
            libc.unshare(libc.CLONE_NEWNS)
            return
        except OSError:
            pass  # root of a container without that right: as anybody
    try:
        images.user_namespace(0 if remap else uid, 0 if remap else gid, libc.CLONE_NEWNS)
    except OSError as error:
        raise ContainerError(
            f"this machine lets users make no namespaces ({error.strerror or error}): see user.max_user_namespaces and"
            " kernel.apparmor_restrict_unprivileged_userns"
        ) from None


def _mount_root(folder: str, root: str) -> None:
    """The image's files under the container's own; where the kernel or the file system has no layers, a copy of them."""
    os.chdir(folder)  # names in a mount's options have no commas
    try:
        libc.mount("overlay", root, 0, "overlay", "lowerdir=lower,upperdir=upper,workdir=work")
    except OSError:
        if not os.path.exists(f"{folder}/copied"):
            import subprocess

            said = subprocess.run(
                ["cp", "-a", "--no-preserve=context", "lower/.", "upper"], stderr=subprocess.PIPE, check=False
            )
            if said.returncode:
                raise ContainerError(f"cp -a of the image: {os.fsdecode(said.stderr).strip()}") from None
            os.close(os.open(f"{folder}/copied", os.O_WRONLY | os.O_CREAT, 0o600))
        libc.mount(f"{folder}/upper", root, libc.MS_BIND)
        return
    for name in ("work", "index"):
        if os.path.isdir(f"work/{name}"):
            os.chmod(f"work/{name}", 0o700)  # so that its owner can remove it


def _bind(source: str, root: str, path: str, read_only: bool = False) -> None:
    target = _target(root, path, os.path.isdir(source))
    libc.mount(source, target, libc.MS_BIND | libc.MS_REC)
    if read_only:
        _make_read_only(target)


def _make_read_only(target: str) -> None:
    flags = os.statvfs(target).f_flag & _LOCKED
    libc.mount("none", target, libc.MS_BIND | libc.MS_REMOUNT | libc.MS_RDONLY | flags)


def _target(root: str, path: str, folder: bool) -> str:
    """Where ``path`` of the container is, seen from outside, made if it is missing. Links in it are the container's: none leads out."""
    at, waiting, links = "", [part for part in path.split("/") if part], 0
    while waiting:
        part = waiting.pop(0)
        if part in (".", ".."):
            at = at if part == "." else at.rpartition("/")[0]
            continue
        here = f"{at}/{part}"
        if os.path.islink(root + here):
            links += 1
            if links > 40:
                raise ContainerError(f"{path}: too many links")
            to = os.readlink(root + here)
            waiting = [one for one in to.split("/") if one] + waiting
            at = "" if to.startswith("/") else at
            continue
        at = here
        if not os.path.lexists(root + at):
            if waiting or folder:
                os.mkdir(root + at, 0o755)
            else:
                os.close(os.open(root + at, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))
    return root + at


def _write_names(folder: str, rootfs: str, as_root: bool) -> None:
    """The files in which programs of the container find the user's name."""
    import grp
    import pwd

    if as_root:
        return
    uid, gid = os.geteuid(), os.getegid()
    lines = {}
    try:
        user = pwd.getpwuid(uid)
        lines["passwd"] = f"{user.pw_name}:x:{uid}:{gid}:{user.pw_gecos}:{user.pw_dir}:/bin/sh"
        lines["group"] = f"{grp.getgrgid(gid).gr_name}:x:{gid}:"
    except KeyError:
        return  # nobody has a name for it here either
    for name, line in lines.items():
        path = f"{rootfs}/etc/{name}"
        text = ""
        if os.path.isfile(path) and not os.path.islink(path):
            with open(path, encoding="utf-8", errors="surrogateescape") as file:
                text = file.read()
        with open(f"{folder}/{name}", "w", encoding="utf-8", errors="surrogateescape") as file:
            os.fchmod(file.fileno(), 0o644)
            file.write(container.with_user(text, line))


# OCI bundles


def _bundle(
    place: ContainerPlace, argv: Sequence[str], environment: dict[str, str]
) -> tuple[list[str], dict[str, str], str]:
    path = environment.get("PATH", "")
    lacking = container.missing(place.options, lambda name: which(name, path))
    found = container.runtime(lambda name: which(name, path))
    if lacking or found is None:
        raise ContainerError(lacking or "")
    bundle = os.path.join(place.work_dir, place.options["container"])
    folder = f"{place.run_dir}/{FOLDER}/{place.step}/{environment.get('SLURM_PROCID', '0')}"
    try:
        with open(f"{bundle}/config.json", encoding="utf-8") as file:
            config = loads(file.read())
        ids = os.geteuid(), os.getegid()
        made = container.bundle_config(config, bundle, argv, environment, place.script, ids)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        with open(f"{folder}/config.json", "w", encoding="utf-8") as file:
            file.write(dumps(made))
    except (OSError, ValueError, TypeError, AttributeError) as error:
        why = getattr(error, "strerror", None) or error
        raise ContainerError(f"--container={place.options['container']}: {bundle}/config.json: {why}") from None
    job = os.path.basename(place.run_dir)
    identifier = f"slurm.{os.geteuid()}.{job}.{place.step}.{environment.get('SLURM_PROCID', '0')}"
    return container.runtime_argv(*found, folder, identifier), environment, place.work_dir
