"""The two ends of what comes back from a copy of a working directory: an archive that is read from the tree as it is sent, and the tree that it is written to.

    SHIMOUT1 | length of the manifest, 8 bytes | manifest, JSON | contents of its files, one after the other

Nobody trusts the other end with a path: every folder on the way is opened without following links, here and in a pod.
"""

from __future__ import annotations

import os
from _stat import S_IMODE, S_ISDIR, S_ISLNK, S_ISREG
from _struct import Struct

from shim.core import stage_out
from shim.core.jsonlite import dumps, loads
from shim.core.stage_out import FILE, FOLDER, LINK, STREAMED, Entry, Left, Manifest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from typing import IO

    from shim.core.stage_out import Stat

MAGIC = b"SHIMOUT1"
_HEAD = Struct(">8sQ")
_MOST_MANIFEST = 512 * 1024 * 1024
_PIECE = 1024 * 1024
_OPEN = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Broken(ValueError):
    """An archive that is none, or ends too soon."""


# What is there


def scan(root: str) -> dict[str, Stat]:
    """What is in the tree, but for what never comes back, and what is on another file system: a mount is the same elsewhere."""
    found: dict[str, Stat] = {}
    device = os.stat(root).st_dev
    waiting = [""]
    while waiting:
        below = waiting.pop()
        try:
            entries = list(os.scandir(os.path.join(root, below) if below else root))
        except OSError:
            continue  # removed meanwhile, or not for us to read
        for entry in entries:
            if not stage_out.is_looked_at(entry.name):
                continue
            path = f"{below}/{entry.name}" if below else entry.name
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if S_ISDIR(status.st_mode):
                if status.st_dev == device:
                    waiting.append(path)
                    found[path] = (0, status.st_mode & 0o170000, 0, 0, 0)
            else:
                found[path] = (
                    status.st_size,
                    status.st_mode,
                    status.st_mtime_ns,
                    status.st_ctime_ns,
                    status.st_ino,
                )
    return found


def changes(
    root: str,
    before: Mapping[str, Stat],
    now: Mapping[str, Stat],
    originals: Callable[[Collection[str]], Mapping[str, Collection[str]]],
    streamed: Collection[str] = (),
) -> Iterator[Entry | Left]:
    """What of ``touched`` has really changed. ``originals(paths)``: digests of what these files were, as far as that is known."""
    paths = [path for path in stage_out.touched(before, now) if path not in streamed]
    same_size = {path for path in paths if path in before and before[path][0] == now[path][0]}
    known = originals(same_size) if same_size else {}
    for path in streamed:
        if path in now and S_ISREG(now[path][1]):
            yield Entry(path=path, kind=STREAMED)
    for path in paths:
        size, mode, mtime, _, _ = now[path]
        here = os.path.join(root, path)
        try:
            if S_ISDIR(mode):
                yield Entry(path=path, kind=FOLDER, mode=S_IMODE(os.lstat(here).st_mode))
            elif S_ISLNK(mode):
                target = os.readlink(here)
                if stage_out.link_stays(path, target):
                    yield Entry(path=path, kind=LINK, target=target)
                else:
                    yield Left(path=path, why=f"a link that leads out: {target}")
            elif S_ISREG(mode):
                digest = digest_of(here)
                if digest not in known.get(path, ()) or mode != before[path][1]:
                    yield Entry(path=path, size=size, mode=S_IMODE(mode) & 0o777, mtime=mtime, digest=digest)
            else:
                yield Left(path=path, why="no regular file")
        except OSError as error:
            yield Left(path=path, why=error.strerror or str(error))


def choose(found: Iterator[Entry | Left], most_bytes: int, most_files: int) -> Manifest:
    """The manifest of it."""
    entries: list[Entry] = []
    left: list[Left] = []
    for one in found:
        if isinstance(one, Entry):
            entries.append(one)
        else:
            left.append(one)
    made = stage_out.choose(entries, most_bytes, most_files)
    both = sorted((*made.left, *left), key=lambda one: one.path)
    return made.replace(left=tuple(both[: stage_out.NAMED]), left_out=made.left_out + len(left))


def digest_of(path: str) -> str:
    """SHA-256 of a file, hex. OSError."""
    fd = os.open(path, _OPEN)
    try:
        return digest_at(fd)
    finally:
        os.close(fd)


def digest_at(fd: int) -> str:
    """SHA-256 of what a descriptor reads from here on, hex."""
    from hashlib import sha256

    made = sha256()
    piece = os.read(fd, _PIECE)
    while piece:
        made.update(piece)
        piece = os.read(fd, _PIECE)
    return made.hexdigest()


# Sending


def head(manifest: Manifest) -> bytes:
    """How an archive with this manifest begins."""
    text = dumps(manifest.to_list()).encode("ascii")
    return _HEAD.pack(MAGIC, len(text)) + text


class Archive:
    """An archive that is in no file: its bytes are read from the tree when they are wanted. Of a file that has become shorter
    zeros follow: its digest tells.
    """

    def __init__(self, manifest: Manifest, root: str) -> None:
        self.manifest = manifest
        self._head = head(manifest)
        self._root = root
        # What came by other ways is here, too: only what is in no other place is worth waiting for.
        self.waits = any(entry.kind != STREAMED for entry in manifest.entries)
        self._files = [entry for entry in manifest.entries if entry.kind == FILE and entry.size]
        self._begins: list[int] = []
        at = len(self._head)
        for entry in self._files:
            self._begins.append(at)
            at += entry.size
        self.size = at
        self._open: tuple[int, int] = (-1, -1)  # number of the file, its descriptor

    def read(self, position: int, most: int) -> bytes:
        """Up to ``most`` bytes from there on."""
        pieces: list[bytes] = []
        most = min(most, self.size - position)
        while most > 0:
            piece = self._piece(position, most)
            pieces.append(piece)
            position += len(piece)
            most -= len(piece)
        return b"".join(pieces)

    def _piece(self, position: int, most: int) -> bytes:
        if position < len(self._head):
            return self._head[position : position + most]
        from bisect import bisect_right

        number = bisect_right(self._begins, position) - 1
        entry, begin = self._files[number], self._begins[number]
        most = min(most, begin + entry.size - position)
        return self._content(number, entry, position - begin, most).ljust(most, b"\0")

    def _content(self, number: int, entry: Entry, at: int, most: int) -> bytes:
        try:
            if self._open[0] != number:
                self.close()
                self._open = (number, os.open(os.path.join(self._root, entry.path), _OPEN))
            return os.pread(self._open[1], most, at)
        except OSError:
            return b""

    def close(self) -> None:
        """Nothing more is read."""
        if self._open[1] >= 0:
            os.close(self._open[1])
        self._open = (-1, -1)


# Receiving


def length(begin: bytes) -> int | None:
    """How long the archive is to the end of its manifest, of which these are the first bytes; None: too few. Broken: it is none."""
    if len(begin) < _HEAD.size:
        return None
    magic, size = _HEAD.unpack_from(begin)
    if magic != MAGIC or size > _MOST_MANIFEST:
        raise Broken("not an archive of ours")
    return int(_HEAD.size + size)


def read_manifest(file: IO[bytes]) -> Manifest:
    """The manifest of the archive in ``file``, which then is at the first content. Broken."""
    begin = file.read(_HEAD.size)
    size = length(begin)
    if size is None:
        raise Broken("it ends too soon")
    text = file.read(size - _HEAD.size)
    if len(text) < size - _HEAD.size:
        raise Broken("it ends too soon")
    try:
        return Manifest.from_list(loads(text.decode("ascii")))
    except ValueError as error:
        raise Broken(str(error)) from None


class Tree:
    """A folder that is written to by paths that somebody else says."""

    def __init__(self, root: str) -> None:
        os.makedirs(root, exist_ok=True)
        self._root = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def close(self) -> None:
        os.close(self._root)

    def folder(self, parts: list[str], mode: int | None = 0o777) -> int:
        """A descriptor of the folder there, made where it is missing unless ``mode`` is None. OSError: a link (ELOOP, ENOTDIR), a file, no permission."""
        here = os.dup(self._root)
        try:
            for part in parts:
                try:
                    below = os.open(part, _FOLDER, dir_fd=here)
                except FileNotFoundError:
                    if mode is None:
                        raise
                    try:
                        os.mkdir(part, mode, dir_fd=here)
                    except FileExistsError:
                        pass
                    below = os.open(part, _FOLDER, dir_fd=here)
                os.close(here)
                here = below
        except BaseException:
            os.close(here)
            raise
        return here

    def blocked(self, path: str) -> str:
        """The first part of the path, as a path, that is there and is no folder but leads to the rest; "" if nothing is in the way."""
        parts = path.split("/")[:-1]
        here = os.dup(self._root)
        try:
            for number, part in enumerate(parts):
                try:
                    below = os.open(part, _FOLDER, dir_fd=here)
                except FileNotFoundError:
                    return ""
                except OSError:
                    return "/".join(parts[: number + 1])
                os.close(here)
                here = below
        finally:
            os.close(here)
        return ""

    def look(self, path: str) -> tuple[Entry | None, Stat | None]:
        """What is at the path, with its digest if it is a file, and its status from when it was read."""
        *parts, name = path.split("/")
        try:
            where = self.folder(parts, None)
        except OSError:
            return None, None
        try:
            status = os.stat(name, dir_fd=where, follow_symlinks=False)
            if S_ISDIR(status.st_mode):
                return Entry(path=path, kind=FOLDER), None
            if S_ISLNK(status.st_mode):
                return Entry(path=path, kind=LINK, target=os.readlink(name, dir_fd=where)), None
            if not S_ISREG(status.st_mode):
                return Entry(path=path, kind="other"), None
            fd = os.open(name, _OPEN, dir_fd=where)
            try:
                digest, status = digest_at(fd), os.fstat(fd)
            finally:
                os.close(fd)
            found = (status.st_size, status.st_mode, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
            return Entry(path=path, size=status.st_size, mode=S_IMODE(status.st_mode), digest=digest), found
        except FileNotFoundError:
            return None, None
        except PermissionError:
            return Entry(path=path, kind="other"), None
        finally:
            os.close(where)

    def make_folder(self, path: str, mode: int) -> None:
        """Makes a folder; one that is there stays as it is. OSError."""
        *parts, name = path.split("/")
        where = self.folder(parts)
        try:
            os.mkdir(name, 0o700, dir_fd=where)
            os.chmod(
                name, mode & 0o777 | 0o700, dir_fd=where, follow_symlinks=os.chmod not in os.supports_follow_symlinks
            )
        except FileExistsError:
            pass
        finally:
            os.close(where)

    def draft(self, path: str, entry: Entry, content: IO[bytes]) -> Draft:
        """Writes the content beside where it is to be. OSError; Broken where there is less of it. Whatever becomes of it, the content is read to its end."""
        return Draft(self, path, entry, content)

    def chmod(self, path: str, mode: int) -> None:
        """Changes the permissions of a regular file."""
        *parts, name = path.split("/")
        where = self.folder(parts, None)
        try:
            fd = os.open(name, _OPEN, dir_fd=where)
            try:
                os.fchmod(fd, mode & 0o777)
            finally:
                os.close(fd)
        finally:
            os.close(where)

    def link(self, path: str, target: str, replace: bool = False) -> None:
        """Makes a symbolic link. OSError: FileExistsError where there is something, unless it is replaced."""
        *parts, name = path.split("/")
        where = self.folder(parts)
        try:
            if replace:
                try:
                    os.unlink(name, dir_fd=where)
                except FileNotFoundError:
                    pass
            os.symlink(target, name, dir_fd=where)
        finally:
            os.close(where)


class Draft:
    """A file that is written and not there yet: ``place`` or ``replace`` it, or ``drop`` it. ``digest``: of what was written."""

    def __init__(self, tree: Tree, path: str, entry: Entry, content: IO[bytes]) -> None:
        from hashlib import sha256

        *parts, name = path.split("/")
        self._entry = entry
        self._name = name
        self._where = tree.folder(parts)
        self._draft = f".shim-{os.getpid():x}-{os.urandom(6).hex()}"
        try:
            self._fd = os.open(
                self._draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=self._where
            )
        except BaseException:
            os.close(self._where)
            raise
        made = sha256()
        left = entry.size
        try:
            while left:
                piece = content.read(min(left, _PIECE))
                if not piece:
                    raise Broken("it ends too soon")
                left -= len(piece)
                made.update(piece)
                view = memoryview(piece)
                while view:
                    view = view[os.write(self._fd, view) :]
            os.fchmod(self._fd, entry.mode & 0o777)
            os.utime(self._fd, ns=(entry.mtime, entry.mtime))
        except BaseException:
            self.drop()
            raise
        self.digest = made.hexdigest()

    def place(self, name: str = "") -> bool:
        """Gives it its name, if nothing has that; whether it has it now."""
        try:
            os.link(
                self._draft, name or self._name, src_dir_fd=self._where, dst_dir_fd=self._where, follow_symlinks=False
            )
        except FileExistsError:
            return False
        except PermissionError:  # a file system without hard links
            try:
                os.stat(name or self._name, dir_fd=self._where, follow_symlinks=False)
                return False
            except FileNotFoundError:
                os.rename(self._draft, name or self._name, src_dir_fd=self._where, dst_dir_fd=self._where)
        self.drop()
        return True

    def replace(self, seen: Stat | None = None) -> bool:
        """Takes the place of the file of its name, if that still is as it was ``seen`` (None: whatever it is); whether it has."""
        if seen is not None:
            try:
                status = os.stat(self._name, dir_fd=self._where, follow_symlinks=False)
            except FileNotFoundError:
                return self.place()
            if seen != (status.st_size, status.st_mode, status.st_mtime_ns, status.st_ctime_ns, status.st_ino):
                return False
        os.rename(self._draft, self._name, src_dir_fd=self._where, dst_dir_fd=self._where)
        self.drop()
        return True

    def drop(self) -> None:
        """Removes it, unless it has a name."""
        if self._where < 0:
            return
        os.close(self._fd)
        try:
            os.unlink(self._draft, dir_fd=self._where)
        except FileNotFoundError:
            pass
        os.close(self._where)
        self._where = -1


def unpack(file: IO[bytes], root: str) -> None:
    """Writes all of an archive over what is in the tree: nobody has worked there yet. Broken or OSError."""
    manifest = read_manifest(file)
    tree = Tree(root)
    try:
        for entry in manifest.entries:
            if entry.kind == FOLDER:
                tree.make_folder(entry.path, entry.mode)
            elif entry.kind == LINK:
                if stage_out.link_stays(entry.path, entry.target):
                    tree.link(entry.path, entry.target, replace=True)
            elif entry.kind == FILE:
                draft = tree.draft(entry.path, entry, file)
                draft.replace()
    finally:
        tree.close()
