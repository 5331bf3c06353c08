"""What keys mean: the bytes of a terminal become names, and a name changes what the person has chosen or asks for something to be done."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Sequence

from shim.admin.top import listing
from shim.admin.top.snapshot import TARGET, Entry
from shim.admin.top.state import FOLLOW, HELP, LIST, State, at
from shim.core.value import Value

KEYS = (
    ("up down, k j", "another job; PgUp PgDn Home End go further"),
    ("f, Enter", "follow its output; PgUp PgDn look back, q leaves"),
    ("a", "attach to the step that began last (sattach)"),
    ("c", "cancel the job (scancel); asks first"),
    ("h  r", "hold, release (scontrol hold, release)"),
    ("s", "which jobs: active, running, pending, just ended"),
    ("u  m", "jobs of one user; mine"),
    ("/", "those with a text in their name, or as their id"),
    ("o  O", "another order; the other way round"),
    ("n", "with or without nodes"),
    ("Esc", "all jobs again"),
    ("^L", "draw again"),
    ("^Z", "suspend; fg goes on"),
    ("?  q", "this page; end"),
)
HINTS = {
    LIST: "f output  a attach  c cancel  h hold  r release  s u m /: which  ? help  q end",
    FOLLOW: "up down PgUp PgDn: look back   End: newest   q: back",
    HELP: "any key: back",
}
# What a terminal sends for keys that are no letters.
_SEQUENCES = {
    **{
        f"\x1b{mark}{letter}": name
        for mark in "[O"
        for letter, name in zip("ABCDHF", ("up", "down", "right", "left", "home", "end"))
    },
    **{
        f"\x1b[{number}~": name
        for number, name in ((1, "home"), (4, "end"), (5, "pgup"), (6, "pgdn"), (7, "home"), (8, "end"))
    },
}
_CONTROLS = {
    "\r": "enter",
    "\n": "enter",
    "\x1b": "esc",
    "\x7f": "rubout",
    "\x08": "rubout",
    "\x15": "erase",
    "\x0c": "redraw",
    "\x04": "q",
}
_MOST_TYPED = 64


class Decoder:
    """Bytes of a terminal -> names of keys. An escape that nothing follows is the key Esc: only time tells (``pending``, ``settle``)."""

    def __init__(self) -> None:
        self._text = ""
        self._bytes = codecs.getincrementaldecoder("utf-8")("replace")

    @property
    def pending(self) -> bool:
        """Whether what came last may be the beginning of more."""
        return bool(self._text)

    def feed(self, data: bytes) -> list[str]:
        """The keys that are complete by now."""
        self._text += self._bytes.decode(data)
        return self._keys(False)

    def settle(self) -> list[str]:
        """Nothing more has come: what is there is all."""
        return self._keys(True)

    def _keys(self, all_: bool) -> list[str]:
        found = []
        while self._text:
            length = _length(self._text)
            if length == 0 and not all_:
                break
            word, self._text = self._text[: length or 1], self._text[length or 1 :]
            key = _SEQUENCES.get(word) or _CONTROLS.get(word) or (word if word.isprintable() else "")
            if key:
                found.append(key)
        return found


def _length(text: str) -> int:
    """How many characters the first key takes; 0: it is not complete."""
    if text[0] != "\x1b":
        return 1
    if len(text) == 1:
        return 0
    if text[1] not in "[O":
        return 1
    for place, letter in enumerate(text[2:], 3):
        if "@" <= letter <= "~":
            return place
    return 0


class Do(Value):
    """What is to be done: ``quit``, ``redraw``, ``attach``, or a command about a job."""

    what: str
    entry: Entry | None = None
    words: tuple[str, ...] = ()


def press(state: State, key: str, listed: Sequence[Entry], rows: int, me: str) -> tuple[State, Do | None]:
    """What the key changes, and what is to be done. ``rows``: how far a page goes; ``me``: the caller's name."""
    if key == "redraw":
        return state, Do(what="redraw")
    if state.prompt:
        return _typed(state, key), None
    if state.asked:
        return _answered(state, key, listed)
    state = state.replace(message="", failed=False)
    if state.mode == HELP:
        return state.replace(mode=LIST), None
    if key == "q":
        return (state.replace(mode=LIST), None) if state.mode == FOLLOW else (state, Do(what="quit"))
    if state.mode == FOLLOW:
        return _looked_back(state, key, rows), None
    if key in _MOVES:
        place = at(listed, state.selected)
        place = max(0, min(len(listed) - 1, _MOVES[key](place, rows, len(listed))))
        return (state.replace(selected=listed[place].key) if listed else state), None
    if key in _CHANGES:
        return _CHANGES[key](state, me), None
    if key in _ON_JOBS:
        if not listed:
            return state.replace(message="There is no job.", failed=True), None
        entry = listed[at(listed, state.selected)]
        return _ON_JOBS[key](state.replace(selected=entry.key), entry)
    return state, None


_MOVES: dict[str, Callable[[int, int, int], int]] = {
    **dict.fromkeys(("up", "k"), lambda place, rows, all_: place - 1),
    **dict.fromkeys(("down", "j"), lambda place, rows, all_: place + 1),
    "pgup": lambda place, rows, all_: place - rows,
    **dict.fromkeys(("pgdn", " "), lambda place, rows, all_: place + rows),
    **dict.fromkeys(("home", "g"), lambda place, rows, all_: 0),
    **dict.fromkeys(("end", "G"), lambda place, rows, all_: all_ - 1),
}


def _next(now: str, words: Sequence[str]) -> str:
    return words[(words.index(now) + 1) % len(words)]


_CHANGES: dict[str, Callable[[State, str], State]] = {
    "s": lambda state, me: state.replace(filter=_next(state.filter, listing.FILTERS), selected=""),
    "o": lambda state, me: state.replace(order=_next(state.order, tuple(listing.ORDERS))),
    "O": lambda state, me: state.replace(reverse=not state.reverse),
    "n": lambda state, me: state.replace(nodes=not state.nodes),
    "m": lambda state, me: state.replace(user="" if state.user == me else me),
    "u": lambda state, me: state.replace(prompt="user", typed=""),
    "/": lambda state, me: state.replace(prompt="text", typed=""),
    "?": lambda state, me: state.replace(mode=HELP),
    "esc": lambda state, me: state.replace(filter=listing.LIVE, user="", text=""),
}


def _command(*words: str) -> Callable[[State, Entry], tuple[State, Do | None]]:
    """Runs a command of Slurm's about the job; no question is asked."""

    def done(state: State, entry: Entry) -> tuple[State, Do | None]:
        return state, Do(what="command", entry=entry, words=(words[0], "-M", entry.cluster, *words[1:], target(entry)))

    return done


def target(entry: Entry) -> str:
    """The job as Slurm's commands take it."""
    return entry.cells(0)[TARGET]


_ON_JOBS: dict[str, Callable[[State, Entry], tuple[State, Do | None]]] = {
    "c": lambda state, entry: (state.replace(asked=f"Cancel job {target(entry)}, {entry.name}, of {entry.user}"), None),
    "h": _command("scontrol", "hold"),
    "r": _command("scontrol", "release"),
    "a": lambda state, entry: (state, Do(what="attach", entry=entry)),
    **dict.fromkeys(("f", "enter"), lambda state, entry: (state.replace(mode=FOLLOW, back=0), None)),
}


def _typed(state: State, key: str) -> State:
    if key == "enter":
        return state.replace(**{state.prompt: state.typed.strip(), "prompt": "", "typed": ""})
    if key == "esc":
        return state.replace(prompt="", typed="")
    if key == "rubout":
        return state.replace(typed=state.typed[:-1])
    if key == "erase":
        return state.replace(typed="")
    return state.replace(typed=(state.typed + key)[:_MOST_TYPED]) if len(key) == 1 else state


def _answered(state: State, key: str, listed: Sequence[Entry]) -> tuple[State, Do | None]:
    state = state.replace(asked="")
    if key not in ("y", "Y"):
        return state.replace(message="Nothing was done."), None
    entry = next((one for one in listed if one.key == state.selected), None)
    if entry is None:
        return state.replace(message="The job is no longer in the list.", failed=True), None
    return _command("scancel")(state, entry)


def _looked_back(state: State, key: str, rows: int) -> State:
    if key == "esc":
        return state.replace(mode=LIST)
    steps = {"up": 1, "k": 1, "down": -1, "j": -1, "pgup": rows, "pgdn": -rows, " ": -rows}
    if key in ("end", "G"):
        return state.replace(back=0)
    return state.replace(back=max(0, state.back + steps.get(key, 0)))
