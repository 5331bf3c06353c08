"""What a job has changed in its copy of the working directory comes back here, and goes on to those who carry on where it stopped.

An archive comes into a file of the run folder, where whoever comes later goes on. When all of it is there its files go to their places one
by one, each whole or not at all; what somebody changed here meanwhile stays, and the job's file is beside it. It may be done again: what is in
its place already is no change. Then the archive is kept, for requeues and dependents.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from errno import EACCES, EEXIST, EISDIR, ELOOP, ENOENT, ENOTDIR, EPERM
from typing import IO, Any

from shim.control import paths
from shim.control.backends.kubernetes.run import run_folders
from shim.control.backends.kubernetes.run.output import Output
from shim.core import stage_out as core
from shim.core.formats.dependency import Dependency
from shim.core.model import states
from shim.core.model.job import Job
from shim.core.stage_out import BESIDE, FILE, FOLDER, LINK, NOTHING, Entry, Manifest
from shim.core.value import Value
from shim.job import stage_out
from shim.job.stage_out import Broken, Tree
from shim.job.stage_parts import digests, join

COPY = "stage.tar.gz"  # in the run folder: what the pods were given
_INCOMING = "changes."  # in the run folder; the round and the node follow
_FROM = "from"  # in a job's spool: archives of the jobs before
_TRIES = 5
# What is wrong with one path, not with this machine.
_OF_THE_PATH = (EACCES, EEXIST, EISDIR, ELOOP, ENOENT, ENOTDIR, EPERM)


class StageReport(Value):
    """What became of an archive: how many files are in their place, which are beside another's, and which did not come, and why."""

    files: int = 0
    bytes: int = 0
    beside: tuple[
        str, ...
    ] = ()  # names that files have instead of their own: those were changed here, or are another node's
    missing: tuple[str, ...] = ()
    missed: int = 0

    def __add__(self, other: StageReport) -> StageReport:
        return StageReport(
            files=self.files + other.files,
            bytes=self.bytes + other.bytes,
            beside=self.beside + other.beside,
            missing=self.missing + other.missing,
            missed=self.missed + other.missed,
        )

    @property
    def text(self) -> str:
        """What the user has to know; "" for nothing."""
        said = []
        if self.beside:
            said.append(f"beside another's file: {core.said(self.beside, len(self.beside))}")
        if self.missed:
            said.append(f"not come back: {core.said(self.missing, self.missed)}")
        return "; ".join(said)


class Destination(Value):
    """Where the files of a run go: ``root``; ``folder`` is its run folder, ``spool`` where its archives are kept."""

    job_id: int
    restart: int
    root: str
    folder: str
    spool: str


class StageOut(Output):
    """An archive that a leader has told of."""

    def __init__(self, told: Mapping[str, Any], to: Destination) -> None:
        self.node, self.round, self.total = int(told["node"]), int(told["round"]), int(told["bytes"])
        self.came = 0  # bytes, over this connection
        super().__init__(str(told["stream"]), os.path.join(to.folder, f"{_INCOMING}{self.round}.{self.node}"))
        self._to = to

    async def finish(self) -> StageReport:
        """All of it is here: its files go to their places. OSError: not now."""
        return await self._aside(lambda: arrived(self.path, self._to))


def waiting(to: Destination) -> list[str]:
    """Archives in the run folder, by round and node."""
    found = []
    with suppress(FileNotFoundError):
        for name in os.listdir(to.folder):
            parts = name.removeprefix(_INCOMING).split(".")
            if name.startswith(_INCOMING) and len(parts) == 2 and all(part.isdigit() for part in parts):
                found.append((int(parts[0]), int(parts[1]), os.path.join(to.folder, name)))
    return [path for _, _, path in sorted(found)]


def arrived(path: str, to: Destination) -> StageReport:
    """Puts the files of an archive in their places, and keeps it for those who carry on. OSError: not now; Broken: it is not whole."""
    if not os.path.exists(path):
        return StageReport()  # done before
    number, node = (int(part) for part in os.path.basename(path).removeprefix(_INCOMING).split("."))
    report = _put(path, to, number, node)
    paths.ensure(os.path.dirname(to.spool))
    paths.ensure(to.spool)
    os.utime(path)
    os.rename(path, os.path.join(to.spool, f"{to.job_id}.{to.restart}.{number}.{node}"))
    return report


def remains(to: Destination) -> StageReport:
    """The same for all that had come before its leader was gone; what is not whole is named."""
    report = StageReport()
    for path in waiting(to):
        try:
            report += arrived(path, to)
        except Broken:
            names = _names(path)
            report += StageReport(missing=tuple(names), missed=max(1, len(names)))
            os.unlink(path)
    return report


def _names(path: str) -> list[str]:
    try:
        with open(path, "rb") as file:
            return [entry.path for entry in stage_out.read_manifest(file).entries if entry.kind in (FILE, LINK)]
    except (OSError, Broken):
        return []


def _put(path: str, to: Destination, number: int, node: int) -> StageReport:
    with open(path, "rb") as file:
        manifest = stage_out.read_manifest(file)
        if os.fstat(file.fileno()).st_size < file.tell() + manifest.size:
            raise Broken("it ends too soon")
        tree = Tree(to.root)
        try:
            return _Putting(tree, to, node, manifest, _others(to, number, node)).all(file)
        finally:
            tree.close()


def _others(to: Destination, number: int, node: int) -> tuple[dict[str, set[str]], set[str]]:
    """Of the run's other archives: the digests that paths had in them, and the paths that a node before this one has in this round."""
    known: dict[str, set[str]] = {}
    claimed: set[str] = set()
    for name in _kept(to.spool):
        job_id, restart, other, of = name
        if (job_id, restart) != (to.job_id, to.restart):
            continue
        with suppress(OSError, Broken), open(os.path.join(to.spool, ".".join(map(str, name))), "rb") as file:
            for entry in stage_out.read_manifest(file).entries:
                if other == number and of < node and entry.kind != FOLDER:
                    claimed.add(entry.path)
                if entry.kind == FILE and of == node:
                    known.setdefault(entry.path, set()).add(entry.digest)
    return known, claimed


class _Putting:
    def __init__(
        self,
        tree: Tree,
        to: Destination,
        node: int,
        manifest: Manifest,
        others: tuple[dict[str, set[str]], set[str]],
    ) -> None:
        self._tree = tree
        self._to = to
        self._node = node
        self._manifest = manifest
        self._known, self._claimed = others
        self._originals: dict[str, set[str]] | None = None
        self._beside: list[str] = []
        self._missing: list[str] = [f"{left.path} ({left.why})" for left in manifest.left]
        self._files = self._bytes = 0

    def all(self, file: IO[bytes]) -> StageReport:
        for entry in self._manifest.entries:
            at = file.tell()
            try:
                self._one(entry, file)
            except Broken:
                raise
            except OSError as error:
                if error.errno not in _OF_THE_PATH:
                    raise
                self._missing.append(f"{entry.path} ({error.strerror})")
            file.seek(at + (entry.size if entry.kind == FILE else 0))
        return StageReport(
            files=self._files,
            bytes=self._bytes,
            beside=tuple(self._beside),
            missing=tuple(self._missing),
            missed=len(self._missing) + self._manifest.left_out - len(self._manifest.left),
        )

    def _one(self, entry: Entry, file: IO[bytes]) -> None:
        if entry.kind == LINK and not core.link_stays(entry.path, entry.target):
            self._missing.append(f"{entry.path} (a link that leads out)")
            return
        if entry.kind == core.STREAMED:
            return
        blocked = self._tree.blocked(entry.path)
        if blocked:
            # What is in the way is somebody else's file, or a link that may lead anywhere.
            other = core.beside(blocked, self._to.job_id, self._node)
            moved = entry.replace(path=other + entry.path[len(blocked) :])
            if not self._tree.blocked(moved.path):
                self._write(moved, file, other)
            else:
                self._missing.append(f"{entry.path} (there is a file where its folder should be)")
            return
        for _ in range(_TRIES):
            here, seen = self._tree.look(entry.path)
            known = self._known_of(entry, here)
            what = core.decide(entry, here, known, entry.path in self._claimed)
            if what == NOTHING:
                if here is not None and entry.kind == FILE and here.mode != entry.mode and here.digest in known:
                    self._tree.chmod(entry.path, entry.mode)
                return
            if what == BESIDE:
                self._write(entry.replace(path=self._free(entry)), file, self._free(entry))
                return
            at = file.tell()
            if self._in_place(entry, file, here, seen):
                return
            file.seek(at)
        self._missing.append(f"{entry.path} (it changes here all the time)")

    def _known_of(self, entry: Entry, here: Entry | None) -> set[str]:
        if here is None or here.kind != FILE or entry.kind != FILE:
            return set()
        if self._originals is None:
            wanted = {one.path for one in self._manifest.entries if one.kind == FILE}
            self._originals = digests(os.path.join(self._to.folder, COPY), wanted)
        return self._originals.get(entry.path, set()) | self._known.get(entry.path, set())

    def _in_place(self, entry: Entry, file: IO[bytes], here: Entry | None, seen: Any) -> bool:
        """Whether it is at its own path now, where ``here`` was; if not, that has changed meanwhile."""
        if entry.kind == FOLDER:
            self._tree.make_folder(entry.path, entry.mode)
            return True
        if entry.kind == LINK:
            try:
                self._tree.link(entry.path, entry.target)
            except FileExistsError:
                return False
            self._files += 1
            return True
        draft = self._tree.draft(entry.path, entry, file)
        if draft.digest != entry.digest:
            draft.drop()
            self._missing.append(f"{entry.path} (it was written to while it was copied)")
            return True
        done = draft.place() if here is None else draft.replace(seen)
        draft.drop()
        if done:
            self._files += 1
            self._bytes += entry.size
        return done

    def _free(self, entry: Entry) -> str:
        """The name beside for an entry: one that nothing has, or that has this content already."""
        for again in range(1000):
            name = core.beside(entry.path, self._to.job_id, self._node, again)
            here, _ = self._tree.look(name)
            if here is None or here.content == entry.content:
                return name
        raise FileExistsError(EEXIST, os.strerror(EEXIST), entry.path)

    def _write(self, entry: Entry, file: IO[bytes], name: str) -> None:
        """Writes what is beside; ``name`` is told."""
        here, _ = self._tree.look(entry.path)
        if (here is None or here.content != entry.content) and not self._in_place(entry, file, None, None):
            self._missing.append(f"{entry.path} (there is another file)")
            return
        if name not in self._beside:
            self._beside.append(name)


# For those who carry on


def spool_of(cluster: str, job: Job) -> str:
    """Where the archives of a job are kept; those of an array's tasks together."""
    return os.path.join(_spools(cluster), str(job.array_job_id or job.job_id))


def _spools(cluster: str) -> str:
    return os.path.join(run_folders.folder_of(cluster), "files")


def _kept(spool: str) -> list[tuple[int, int, int, int]]:
    found = []
    with suppress(FileNotFoundError):
        for name in os.listdir(spool):
            numbers = name.split(".")
            if len(numbers) == 4 and all(number.isdigit() for number in numbers):
                found.append((int(numbers[0]), int(numbers[1]), int(numbers[2]), int(numbers[3])))
    return found


def predecessors(job: Job) -> list[int]:
    """The jobs on which it depends, or did."""
    if not job.request.dependency:
        return []
    try:
        conditions = Dependency.parse(job.request.dependency).conditions
    except ValueError:
        return []  # a text of another release: what it names cannot be told
    return [one.job_id for one in conditions if one.job_id]


def copy_for(job: Job, cluster: str, packed: str, folder: str) -> str:
    """Makes the file with what the pods are given: the packed copy, and what came back of the jobs before and of the job's own runs since. OSError."""
    own = spool_of(cluster, job)
    for before in predecessors(job):
        _inherit(os.path.join(_spools(cluster), str(before)), own)
    later = []
    for spool in (os.path.join(own, _FROM), own):
        for numbers in _kept(spool):
            path = os.path.join(spool, ".".join(map(str, numbers)))
            came = os.stat(path).st_mtime
            if came > job.submit_time and (spool != own or numbers[0] == job.job_id):
                later.append((came, path))
    target = os.path.join(folder, COPY)
    with suppress(FileNotFoundError):
        os.unlink(target)
    if later:
        streams = _streams(job.request.work_dir, [path for _, path in later])
        join(packed, [*(path for _, path in sorted(later)), *streams], target)
    else:
        try:
            os.link(packed, target)
        except OSError:
            shutil.copyfile(packed, target)
    return target


def _inherit(other: str, own: str) -> None:
    """What the job before has left, and what it was given itself, under second names: they go when nobody needs them."""
    to = os.path.join(own, _FROM)
    for spool in (other, os.path.join(other, _FROM)):
        for numbers in _kept(spool):
            name = ".".join(map(str, numbers))
            os.makedirs(to, mode=0o700, exist_ok=True)
            with suppress(FileExistsError, FileNotFoundError):
                os.link(os.path.join(spool, name), os.path.join(to, name))


def _streams(root: str, archives: Iterable[str]) -> list[bytes]:
    """An archive of the files that came by other ways (outputs), as they are here by now."""
    names: set[str] = set()
    for path in archives:
        with open(path, "rb") as file:
            names.update(entry.path for entry in stage_out.read_manifest(file).entries if entry.kind == core.STREAMED)
    found = {path: stat for path, stat in stage_out.scan(root).items() if path in names} if names else {}
    if not found:
        return []
    entries = stage_out.changes(root, {}, found, lambda wanted: {})
    archive = stage_out.Archive(stage_out.choose(entries, 64 << 20, 10000), root)
    try:
        return [archive.read(0, archive.size)]
    finally:
        archive.close()


def prune(cluster: str, jobs: Iterable[Job]) -> None:
    """Removes the archives that none of these jobs, the active ones, needs."""
    needed = set[int]()
    for job in jobs:
        if job.state not in states.TERMINAL:
            needed.update((job.job_id, job.array_job_id or job.job_id, *predecessors(job)))
    with suppress(FileNotFoundError):
        for name in os.listdir(_spools(cluster)):
            if name.isdigit() and int(name) not in needed:
                shutil.rmtree(os.path.join(_spools(cluster), name), ignore_errors=True)
