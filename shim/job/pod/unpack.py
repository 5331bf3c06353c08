"""Unpacking a staged working directory: an archive that came from elsewhere is never trusted with a path.

Every folder on the way is opened without following links, so nothing is ever written outside of the target. Links may point to what is
in the tree: ``..`` only at their beginning, and no more of them than the link is deep. Owners are not restored; of a file's mode the
permissions are.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tarfile import TarFile, TarInfo
    from typing import IO

_PIECE = 1024 * 1024
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class UnpackError(Exception):
    """The archive holds something that is not unpacked, or is broken; the text names it."""


def unpack_parts(file: IO[bytes], target: str) -> None:
    """Unpacks a copy into the folder ``target``, and what earlier runs have left over it. UnpackError or OSError."""
    from shim.job import stage_out
    from shim.job.stage_parts import parts

    try:
        for number, part in enumerate(parts(file)):
            if number:
                stage_out.unpack(part, target)
            else:
                unpack(part, target)
    except ValueError as error:
        raise UnpackError(f"the archive is broken: {error}") from None


def unpack(archive: IO[bytes], target: str) -> None:
    """Unpacks a tar archive (compressed or not, read in one go) into the folder ``target``, made where it is missing.

    Raises UnpackError or OSError; what was unpacked until then stays.
    """
    import lzma
    import tarfile
    import zlib

    os.makedirs(target, exist_ok=True)
    root = os.open(target, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    folders: list[tuple[list[str], TarInfo]] = []
    try:
        with tarfile.open(fileobj=archive, mode="r|*") as tar:
            for member in tar:
                parts = parts_of(member.name)
                if member.isdir():
                    folders.append((parts, member))
                    os.close(_folder(root, parts))
                elif not parts:
                    raise UnpackError(f"{member.name!r}: a file in place of the working directory")
                else:
                    _make(root, parts, member, tar)
        for parts, member in reversed(folders):  # at last: a folder may be read-only
            _finish_folder(root, parts, member)
    except (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise UnpackError(f"the archive is broken: {error}") from None
    finally:
        os.close(root)


def parts_of(name: str) -> list[str]:
    """The folders and the name in a member's name; [] for the tree itself. UnpackError for a name that leaves the tree."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or ".." in parts or "\0" in name:
        raise UnpackError(f"{name!r}: not a path within the working directory")
    return parts


def check_link(parts: list[str], target: str) -> None:
    """UnpackError unless a symbolic link at ``parts`` with that target stays in the tree, whatever it is combined with."""
    words = [word for word in target.split("/") if word not in ("", ".")]
    up = 0
    while up < len(words) and words[up] == "..":
        up += 1
    if target.startswith("/") or not target or ".." in words[up:] or up >= len(parts) or "\0" in target:
        raise UnpackError(f"{'/'.join(parts)!r}: a link that leads out of the working directory: {target!r}")


def _make(root: int, parts: list[str], member: TarInfo, tar: TarFile) -> None:
    name = parts[-1]
    where = _folder(root, parts[:-1])
    try:
        if member.issym():
            check_link(parts, member.linkname)
            _remove(where, name)
            os.symlink(member.linkname, name, dir_fd=where)
        elif member.islnk():
            _link(root, parts_of(member.linkname), where, name)
        elif member.isfile():
            _remove(where, name)
            _write(where, name, member, tar)
        else:
            raise UnpackError(f"{member.name!r}: neither a file, a folder nor a link")
    finally:
        os.close(where)


def _folder(root: int, parts: list[str]) -> int:
    """The folder at ``parts``, made where it is missing."""
    here = os.dup(root)
    for part in parts:
        try:
            try:
                below = os.open(part, _FOLDER, dir_fd=here)
            except FileNotFoundError:
                os.mkdir(part, 0o777, dir_fd=here)
                below = os.open(part, _FOLDER, dir_fd=here)
        except NotADirectoryError:
            raise UnpackError(f"{'/'.join(parts)!r}: {part!r} is not a folder") from None
        except OSError as error:
            if error.errno == 40:  # ELOOP
                raise UnpackError(f"{'/'.join(parts)!r}: {part!r} is a link") from None
            raise
        finally:
            os.close(here)
        here = below
    return here


def _write(where: int, name: str, member: TarInfo, tar: TarFile) -> None:
    if member.mode & 0o6000:
        raise UnpackError(f"{member.name!r}: a program with the rights of its owner")
    content = tar.extractfile(member)
    assert content is not None
    file = os.open(name, _NEW, 0o600, dir_fd=where)
    try:
        piece = content.read(_PIECE)
        while piece:
            view = memoryview(piece)
            while view:
                view = view[os.write(file, view) :]
            piece = content.read(_PIECE)
        os.fchmod(file, member.mode & 0o777)
        os.utime(file, (member.mtime, member.mtime))
    finally:
        os.close(file)


def _link(root: int, target: list[str], where: int, name: str) -> None:
    if not target:
        raise UnpackError(f"{name!r}: a second name for the working directory")
    there = _folder(root, target[:-1])
    try:
        _remove(where, name)
        os.link(target[-1], name, src_dir_fd=there, dst_dir_fd=where, follow_symlinks=False)
    finally:
        os.close(there)


def _remove(where: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=where)
    except FileNotFoundError:
        return


def _finish_folder(root: int, parts: list[str], member: TarInfo) -> None:
    here = _folder(root, parts)
    try:
        os.fchmod(here, member.mode & 0o777 | 0o700)
        os.utime(here, (member.mtime, member.mtime))
    except PermissionError:
        return  # the target itself may be somebody else's: a mounted folder
    finally:
        os.close(here)
