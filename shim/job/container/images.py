"""Images on this machine: got by the program that is there, unpacked once, and kept for whoever asks next.

``folder`` is where all of a user's are kept: one folder for each, with ``rootfs`` and ``image.json``. It has its name when it is
complete; who makes it holds a lock meanwhile, so what a killed one has left is removed by the next.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import subprocess

from shim.core.container import (
    UNPACKER,
    ContainerError,
    Image,
    fetch_argv,
    fetcher,
    image_of_apptainer,
    image_of_config,
    image_of_enroot,
    is_file,
    missing,
    registry_names,
    unpack_argv,
)
from shim.core.jsonlite import dumps, loads
from shim.job import libc
from shim.job.container.tools import which

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import IO

_ENGINES = ("podman", "docker")
# What podman reads in a user namespace that somebody has made for it: it makes none, and keeps to the user's own images.
_IN_NAMESPACE = {"_CONTAINERS_USERNS_CONFIGURED": "done"}


def remove_tree(path: str) -> None:
    """Removes a folder with whatever modes its folders have."""
    import shutil

    for folder, names, _files in os.walk(path):
        for name in names:
            inner = os.path.join(folder, name)
            if not os.path.islink(inner):
                with contextlib.suppress(OSError):
                    os.chmod(inner, 0o700)
    shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def locked(path: str) -> Iterator[None]:
    """Holds the lock file ``path``; waits for whoever has it."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)


def prepared(image: str, folder: str, environment: Mapping[str, str], say: Callable[[str], None]) -> str:
    """The folder of the unpacked image. ``environment``: of the task, for the programs. ContainerError."""
    return _Getter(image, folder, environment, say).get()


def read(prepared_folder: str) -> Image:
    """What is known of an unpacked image. ContainerError where it is gone."""
    try:
        with open(f"{prepared_folder}/image.json", encoding="utf-8") as file:
            found = Image.from_dict(loads(file.read()))
    except (OSError, ValueError) as error:
        raise ContainerError(f"the unpacked image {prepared_folder} cannot be read: {error}") from None
    assert isinstance(found, Image)
    return found


class _Getter:
    """One image, and the program that gets it."""

    def __init__(self, image: str, folder: str, environment: Mapping[str, str], say: Callable[[str], None]) -> None:
        self.image = image
        self.folder = folder
        self.environment = dict(environment)
        self.say = say
        path = self.environment.get("PATH", "")
        self.which: Callable[[str], str | None] = lambda program: which(program, path)
        self.alone = False  # podman runs in a user namespace of ours

    def get(self) -> str:
        lacking = missing({"container-image": self.image}, self.which)
        if lacking:
            raise ContainerError(lacking)
        try:
            if is_file(self.image):
                return self._of_file(os.path.realpath(self.image))
            found = fetcher(self.image, self.which)
            assert found is not None
            name, path = found
            if name in _ENGINES:
                return self._of_engine(name, path)
            return self._kept(f"{name} {self.image}", lambda draft: self._fetch(name, path, draft))
        except OSError as error:
            raise ContainerError(f"{self.image}: {error.strerror or error}") from None

    def _kept(self, key: str, make: Callable[[str], Image]) -> str:
        place = f"{self.folder}/{hashlib.sha256(os.fsencode(key)).hexdigest()[:32]}"
        if os.path.exists(place):
            return place
        with locked(f"{place}.lock"):
            if os.path.exists(place):
                return place
            draft = f"{place}.new"
            remove_tree(draft)
            os.mkdir(draft, 0o700)
            self.say(f"pyxis: unpacking {self.image}")
            try:
                image = make(draft)
            except BaseException:
                remove_tree(draft)
                raise
            os.chmod(f"{draft}/rootfs", 0o755)
            with open(f"{draft}/image.json", "w", encoding="utf-8") as file:
                file.write(dumps({**image.to_dict(), "of": self.image}))
            os.rename(draft, place)
        return place

    # A squashfs file

    def _of_file(self, path: str) -> str:
        try:
            status = os.stat(path)
        except OSError as error:
            raise ContainerError(f"the image {self.image}: {error.strerror}") from None
        key = f"file {path} {status.st_ino} {status.st_size} {status.st_mtime_ns}"
        return self._kept(key, lambda draft: self._unpack(path, draft))

    def _unpack(self, path: str, draft: str) -> Image:
        unpacker = self.which(UNPACKER)
        assert unpacker is not None
        # Its complaint about device files, which only root can make, is none: /dev is this machine's.
        self._run(unpack_argv(unpacker, path, f"{draft}/rootfs"), accepted=(0, 2))
        return image_of_enroot(_text(f"{draft}/rootfs/etc/environment"), _text(f"{draft}/rootfs/etc/rc"))

    # Programs that put an image somewhere

    def _fetch(self, name: str, path: str, draft: str) -> Image:
        self.say(f"pyxis: importing docker image: {self.image}")
        if name == "enroot":
            self._run(fetch_argv(name, path, self.image, f"{draft}/image.sqsh"))
            image = self._unpack(f"{draft}/image.sqsh", draft)
            os.unlink(f"{draft}/image.sqsh")
            return image
        self._run(fetch_argv(name, path, self.image, f"{draft}/rootfs"))
        return image_of_apptainer(_text(f"{draft}/rootfs/.singularity.d/env/10-docker2singularity.sh"))

    # podman and docker

    def _of_engine(self, name: str, path: str) -> str:
        names = registry_names(self.image)
        if name == "podman" and os.geteuid() != 0:
            # Where the user has no further ids to give, or in the namespace of a node already: with the one id that there is. Podman
            # has but one code for an image that is not there and for what it cannot do.
            code, _, complained = self._ran([path, "image", "exists", names[0]])
            self.alone = code != 0 and bool(_lines(complained))
        told = self._inspected(path, names)
        if told is None:
            told = self._pulled(name, path, names)
        identity, config = told
        return self._kept(f"{name} {identity}", lambda draft: self._export(path, identity, config, draft))

    def _inspected(self, path: str, names: list[str]) -> tuple[str, Image] | None:
        for one in names:
            code, said, _ = self._ran([path, "image", "inspect", one])
            if code == 0:
                known = loads(said)[0]
                return str(known["Id"]), image_of_config(known.get("Config") or {})
        return None

    def _pulled(self, name: str, path: str, names: list[str]) -> tuple[str, Image]:
        self.say(f"pyxis: importing docker image: {self.image}")
        one_id = ["--storage-opt", "ignore_chown_errors=true"]  # which not every storage driver has
        if not self.alone or self._code([path, *one_id, "pull", "--quiet", names[-1]]) != 0:
            self._run([path, "pull", "--quiet", names[-1]])
        told = self._inspected(path, names[-1:])
        if told is None:
            raise ContainerError(f"{name} has no image {names[-1]} although it has got it")
        return told

    def _export(self, path: str, identity: str, config: Image, draft: str) -> Image:
        os.mkdir(f"{draft}/rootfs", 0o755)
        # Its name is the same each time: what somebody who was killed has left is taken away first.
        name = f"slurm-shim-{os.path.basename(draft).partition('.')[0]}"
        self._code([path, "rm", "--force", name])
        self._run([path, "create", "--name", name, identity, "true"])
        owner = ["--numeric-owner"] if os.geteuid() == 0 else ["--no-same-owner", "--delay-directory-restore"]
        tar = [self.which("tar") or "tar", "-x", "-p", *owner, "--exclude=dev/*", "-C", f"{draft}/rootfs"]
        try:
            with self._started([path, "export", name], stdout=subprocess.PIPE) as export:
                self._run(tar, stdin=export.stdout)
                said = export.stderr.read() if export.stderr else b""
            if export.returncode:
                raise ContainerError(_complaint([path, "export"], export.returncode, said))
        finally:
            self._code([path, "rm", "--force", name])
        return config

    # Running them

    def _started(
        self, argv: list[str], stdin: int | IO[bytes] | None = subprocess.DEVNULL, stdout: int = subprocess.PIPE
    ) -> subprocess.Popen[bytes]:
        variables = {**self.environment, **({**_IN_NAMESPACE, **_ids()} if self.alone else {})}
        return subprocess.Popen(
            argv,
            stdin=stdin,
            stdout=stdout,
            stderr=subprocess.PIPE,
            env=variables,
            preexec_fn=_be_root_alone if self.alone else None,
        )

    def _ran(self, argv: list[str], stdin: int | IO[bytes] | None = subprocess.DEVNULL) -> tuple[int, bytes, bytes]:
        with self._started(argv, stdin) as process:
            said, complained = process.communicate()
        return process.returncode, said, complained

    def _code(self, argv: list[str]) -> int:
        return self._ran(argv)[0]

    def _run(
        self, argv: list[str], stdin: int | IO[bytes] | None = subprocess.DEVNULL, accepted: tuple[int, ...] = (0,)
    ) -> bytes:
        code, said, complained = self._ran(argv, stdin)
        if code not in accepted:
            raise ContainerError(_complaint(argv, code, complained or said))
        return said


def _complaint(argv: list[str], code: int, said: bytes) -> str:
    return f"{' '.join(argv[:3])}: exit code {code}" + "".join(f"\n  {line}" for line in _lines(said)[-10:])


def _lines(said: bytes) -> list[str]:
    lines = said.decode("utf-8", "replace").splitlines()
    return [line for line in lines if line.strip() and "level=warning" not in line]


def _ids() -> dict[str, str]:
    return {"_CONTAINERS_ROOTLESS_UID": str(os.getuid()), "_CONTAINERS_ROOTLESS_GID": str(os.getgid())}


def _be_root_alone() -> None:
    """A user namespace in which the own id is root's, and there is no other."""
    user_namespace(0, 0, libc.CLONE_NEWNS)


def user_namespace(uid: int, gid: int, flags: int) -> None:
    """Enters a new user namespace, and others, in which the own ids are ``uid`` and ``gid``. OSError."""
    own_uid, own_gid = os.geteuid(), os.getegid()
    libc.unshare(libc.CLONE_NEWUSER | flags)
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {own_uid} 1"), ("gid_map", f"{gid} {own_gid} 1")):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError:
        return ""
