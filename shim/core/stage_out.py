"""Files that come back from a copy of a working directory: what has changed, what of it travels, and what becomes of it here. Pure.

A path is relative, in the form of ``os.fsdecode``: bytes that are no text are in it as surrogate escapes.
"""

from __future__ import annotations

from shim.core.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from typing import Any

    Stat = tuple[int, int, int, int, int]  # size, mode, mtime and ctime in nanoseconds, inode

FILE, LINK, FOLDER = "file", "link", "folder"
STREAMED = "streamed"  # a file whose content has come by another way: the script's output, a step's
# What is made of an entry here.
NOTHING, WRITE, BESIDE = "nothing", "write", "beside"
NAMED = 1000  # left out files that are named; of more the number is told
_SHOWN, _LONG = 8, 60  # names on a line, and characters of one (of ours: it is escaped where it is kept)
_NEVER = (".git",)  # what would run here without being asked for, and was not in the copy either
_USELESS = ("__pycache__",)


class Entry(Value):
    """One thing that comes back. ``digest``: SHA-256 of a file's content, hex; ``target``: where a link points to."""

    path: str
    kind: str = FILE
    size: int = 0
    mode: int = 0o644
    mtime: int = 0  # nanoseconds
    digest: str = ""
    target: str = ""

    @property
    def content(self) -> tuple[str, str]:
        """Equal for entries between which there is nothing to choose."""
        return (self.kind, self.target if self.kind == LINK else self.digest)


class Left(Value):
    """A file that does not come back, and why."""

    path: str
    why: str


class Manifest(Value):
    """What comes back from one node: ``entries``, folders before what is in them, and what does not come, as far as it is named (``left_out`` counts all)."""

    entries: tuple[Entry, ...] = ()
    left: tuple[Left, ...] = ()
    left_out: int = 0
    _nested = {"entries": Entry, "left": Left}

    @property
    def size(self) -> int:
        """Bytes of the contents that travel."""
        return sum(entry.size for entry in self.entries if entry.kind == FILE)

    def to_list(self) -> list[Any]:
        """A short form of it for JSON: there may be ten thousands of entries."""
        rows = [[e.path, e.kind, e.size, e.mode, e.mtime, e.digest, e.target] for e in self.entries]
        return [rows, [[left.path, left.why] for left in self.left], self.left_out]

    @classmethod
    def from_list(cls, found: Any) -> Manifest:
        """ValueError for what is none, or names a path that leaves the tree."""
        try:
            rows, left, left_out = found
            entries = tuple([_entry(row) for row in rows])
            return cls(
                entries=entries,
                left=tuple([Left(path=str(path), why=str(why)) for path, why in left]),
                left_out=int(left_out),
            )
        except (TypeError, AttributeError) as problem:
            raise ValueError(f"no manifest: {problem}") from None


def _entry(row: Any) -> Entry:
    path, kind, size, mode, mtime, digest, target = row
    if not all(isinstance(one, str) for one in (path, kind, digest, target)):
        raise ValueError("an entry that is none")
    if not all(isinstance(one, int) for one in (size, mode, mtime)) or size < 0:
        raise ValueError(f"{path!r}: an entry with no proper numbers")
    if kind not in (FILE, LINK, FOLDER, STREAMED) or not is_within(path):
        raise ValueError(f"{path!r}: not a path within the working directory")
    return Entry(path=path, kind=kind, size=size, mode=mode & 0o777, mtime=mtime, digest=digest, target=target)


def is_within(path: str) -> bool:
    """Whether it is a path that stays in the tree, in its one form, and one that may come back."""
    parts = path.split("/")
    return not ("\0" in path or "" in parts or "." in parts or ".." in parts or any(part in _NEVER for part in parts))


def is_looked_at(name: str) -> bool:
    """Whether what is called so may come back at all."""
    return name not in _NEVER and name not in _USELESS


def link_stays(path: str, target: str) -> bool:
    """Whether a symbolic link at ``path`` leads to what is in the tree, whatever it is combined with: ``..`` at its beginning alone."""
    words = [word for word in target.split("/") if word not in ("", ".")]
    up = 0
    while up < len(words) and words[up] == "..":
        up += 1
    depth = path.count("/")
    return bool(target) and not target.startswith("/") and ".." not in words[up:] and up <= depth and "\0" not in target


def touched(before: Mapping[str, Stat], now: Mapping[str, Stat]) -> list[str]:
    """What may have changed: whatever does not look as it did. What is gone is of no interest: deletions do not travel."""
    return [path for path, found in now.items() if before.get(path) != found]


def choose(entries: Iterable[Entry], most_bytes: int, most_files: int) -> Manifest:
    """What travels of it: the small files first, so that one large one costs no others their place."""
    kept: list[Entry] = []
    left: list[Left] = []
    everything = list(entries)
    files = sorted((entry for entry in everything if entry.kind == FILE), key=lambda entry: (entry.size, entry.path))
    room, places = most_bytes, most_files
    out = set()
    for entry in files:
        if entry.size > room or not places:
            over = (
                f"more than {most_files} files" if not places else f"beyond the {most_bytes >> 20} MiB that come back"
            )
            out.add(entry.path)
            left.append(Left(path=entry.path, why=over))
        else:
            room, places = room - entry.size, places - 1
    kept = sorted((entry for entry in everything if entry.path not in out), key=lambda entry: entry.path)
    left.sort(key=lambda one: one.path)
    return Manifest(entries=tuple(kept), left=tuple(left[:NAMED]), left_out=len(left))


def decide(entry: Entry, here: Entry | None, known: Collection[str], claimed: bool = False) -> str:
    """What becomes of an entry where ``here`` is what is at its path (None: nothing; another kind of thing: an entry of that kind).

    ``known``: digests of what this path had in the copy that the job was given, or has been given here since: content of these is
    nobody's change. ``claimed``: another node's result of the same job has the path.
    """
    if entry.kind == FOLDER:
        return NOTHING if here is not None and here.kind == FOLDER else WRITE if here is None else BESIDE
    if here is None:
        return WRITE
    if here.content == entry.content:
        return NOTHING
    if claimed or here.kind == FOLDER or entry.kind == LINK or here.kind != FILE:
        return BESIDE
    return WRITE if here.digest in known else BESIDE


def beside(path: str, job_id: int, node: int = 0, again: int = 0) -> str:
    """Another name for what comes back where somebody else's file is. ``again``: how many of these names are taken, too."""
    name = f"{path}.slurm-{job_id}{f'-{node}' if node else ''}"
    return f"{name}.{again}" if again else name


def said(names: Iterable[str], count: int, most: int = 3) -> str:
    """Some names and how many more there are, on one line whatever is in them."""
    shown = [repr(name) if not name.isprintable() or " " in name else name for name in names][:most]
    more = count - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


def unfetched(manifests: Iterable[Manifest]) -> str:
    """What is said of files of the job that nobody has come for: how many, how much, which. One line of 1,000 characters at most."""
    sizes = {entry.path: entry.size for one in manifests for entry in one.entries if entry.kind in (FILE, LINK)}
    if not sizes:
        return "files that the job has made or changed were not fetched in time: they are lost with its pods"
    names = [path if len(path) <= _LONG else path[:_LONG] + "…" for path in sorted(sizes)[:_SHOWN]]
    files = f"{len(sizes)} file{'s' * (len(sizes) > 1)} ({sum(sizes.values())} bytes)"
    return (
        f"{files} of the job were not fetched in time: they are lost with its pods: {said(names, len(sizes), _SHOWN)}"
    )
