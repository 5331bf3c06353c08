"""A working directory as it is at submission, packed for the pods.

``.shimignore``, else ``.gitignore`` of the folder itself says what stays out, as git reads it. ``.git`` and files of earlier output (``slurm-*.out``) stay out always, and so do
state folders of ours, with the keys of runs and what was packed before: a project may have its own SHIM_STATE_DIR.
"""

from __future__ import annotations

import gzip
import os
import stat
import tarfile
from collections.abc import Iterator
from typing import IO, Any

from shim.control import paths
from shim.control.backends.base import BackendError, Progress
from shim.core.formats.gitignore import Ignore
from shim.job import capped

MIB = 1024 * 1024
NAME = "stage.tar.gz"
_IGNORE_FILES = (".shimignore", ".gitignore")
_ALWAYS = b".git/\nslurm-*.out\n__pycache__/\n"
_BLOCK = tarfile.BLOCKSIZE  # an archive is made of these: a header for each entry, and what is in it
_NAMED = 5  # of the largest entries


def ignored(folder: str) -> Ignore:
    """What stays out of a copy of the folder."""
    contents = [_ALWAYS]
    for name in _IGNORE_FILES:
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            contents.append(capped.kept(path))
            break
    return Ignore(*contents)


def entries(folder: str) -> Iterator[tuple[str, os.stat_result]]:
    """What is copied: relative paths and what they are, folders before what is in them."""
    ignore = ignored(folder)
    states = os.path.relpath(os.path.dirname(os.path.realpath(paths.state_dir())), os.path.realpath(folder))
    waiting = [""]
    while waiting:
        below = waiting.pop()
        with os.scandir(os.path.join(folder, below)) as found:
            for entry in sorted(found, key=lambda one: one.name):
                path = os.path.join(below, entry.name)
                is_folder = entry.is_dir(follow_symlinks=False)
                if ignore.out(path, is_folder) or ((below or ".") == states and _is_state(entry)):
                    continue
                status = entry.stat(follow_symlinks=False)
                if is_folder:
                    waiting.append(path)
                if is_folder or stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
                    yield path, status


def _is_state(entry: os.DirEntry[str]) -> bool:
    """Whether it is a host's state folder: homes are shared by hosts."""
    return os.path.exists(os.path.join(entry.path, os.path.basename(paths.index_path())))


def pack(folder: str, target: str, limit: int, progress: Progress | None = None) -> list[str]:
    """Packs ``folder`` into the file ``target``; the links that lead out of it, which are left out (pods refuse them).

    Raises BackendError above ``limit`` MiB.
    """
    progress = progress or Progress()
    progress.begin(f"looking at {folder}")
    try:
        everything = list(entries(folder))
        abroad = [path for path, status in everything if stat.S_ISLNK(status.st_mode) and _leads_out(folder, path)]
        found = [entry for entry in everything if entry[0] not in abroad]
        total = sum(status.st_size for _, status in found)
        if total > limit * MIB:
            raise BackendError(_too_large(folder, found, total, limit))
        blocks = sum(-(-status.st_size // _BLOCK) for _, status in found if stat.S_ISREG(status.st_mode))
        content = (blocks + len(found)) * _BLOCK
        progress.begin(f"packing {folder} for the pods", "bytes", content)
        with (
            open(target, "wb") as raw,
            _Packed(raw, progress) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
        ):
            for path, _ in found:
                archive.add(os.path.join(folder, path), path, recursive=False, filter=_plain)
    except OSError as error:
        raise BackendError(f"the working directory cannot be copied: {error.strerror}: {error.filename}") from error
    return abroad


class _Packed(gzip.GzipFile):
    """Packs what is written, and counts it, so that one large file moves too."""

    def __init__(self, raw: IO[bytes], progress: Progress) -> None:
        super().__init__("", "wb", 6, raw, 0)
        self._progress = progress

    def write(self, data: Any) -> int:
        """As any file's."""
        self._progress.done += len(data)
        return super().write(data)


def _leads_out(folder: str, path: str) -> bool:
    target = os.readlink(os.path.join(folder, path))
    inside = os.path.normpath(os.path.join(os.path.dirname(path), target))
    return os.path.isabs(target) or inside == ".." or inside.startswith("../")


def _plain(info: tarfile.TarInfo) -> tarfile.TarInfo:
    """Nobody's name, no special bits: what is unpacked belongs to whom unpacks it."""
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    info.mode &= 0o777
    return info


def _too_large(folder: str, found: list[tuple[str, os.stat_result]], total: int, limit: int) -> str:
    sizes: dict[str, int] = {}
    for path, status in found:
        top = path.split(os.sep, 1)[0]
        sizes[top] = sizes.get(top, 0) + status.st_size
    largest = sorted(sizes, key=lambda name: -sizes[name])[:_NAMED]
    names = ", ".join(f"{name} ({sizes[name] / MIB:.1f} MiB)" for name in largest)
    return (
        f"the working directory {folder} has {total / MIB:.1f} MiB, more than stage_limit = {limit} allows to copy into the"
        f' pods; the largest: {names}. Mount it ("mounts" in the configuration), or leave things out (.shimignore)'
    )


def pack_nothing(target: str) -> None:
    """An archive with nothing in it. OSError."""
    with gzip.GzipFile(target, "wb", 6, None, 0) as packed, tarfile.open(fileobj=packed, mode="w"):
        return
