"""Lists of node names in Slurm's notation: ``n[1-3,7],m2``.

A name may hold several brackets (``rack[1-2]n[1-4]``: the last varies fastest, of those before it the last slowest); numbers keep the width of the first
of their range (``n[08-11]``). Answers to ``scontrol show hostnames|hostlist`` and to every option that takes node names.
"""

from __future__ import annotations

from shim.core.errors import plain
from shim.core.formats.integers import is_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Union

    Range = tuple[int, int, int]  # first, last, width
    Part = Union[str, list[Range]]  # a literal piece of a name, or a bracket

LIMIT = 65536  # names that one list may stand for
SEPARATORS = "\t\n ,"


class HostlistError(ValueError):
    """A list that cannot be read. ``lines`` is what Slurm prints (form: see ``core.errors.ShimError``)."""

    def __init__(self, text: str, cause: str) -> None:
        super().__init__(f"Invalid hostlist: {text}")
        invalid = plain(f"Invalid hostlist: {text}")
        self.lines = (f"error: {cause}", invalid) if cause else (invalid,)


def expand(text: str) -> list[str]:
    """The names in the order of ``text``, duplicates kept. Raises HostlistError, also above 65,536 names.

    As with Slurm a bracket that is never closed, or one that closes nothing, is a letter of a name: ``a],b`` is two names.
    """
    names: list[str] = []
    for parts in _parsed(text):
        names.extend(_names(parts))
    return names


def plain_names(text: str) -> list[str]:
    """As ``expand``, for who makes nodes by these names: HostlistError also for a bracket that would be a letter of one."""
    names = expand(text)
    for name in names:
        if "[" in name or "]" in name:
            raise HostlistError(text, f"Unmatched brackets: `{name}'")
    return names


def _names(parts: Sequence[Part]) -> list[str]:
    heads = [""]
    for place, part in enumerate(parts, 1):
        if isinstance(part, str):
            heads = [head + part for head in heads]
            continue
        numbers = [str(number).zfill(width) for first, last, width in part for number in range(first, last + 1)]
        if place == len(parts):
            heads = [head + number for head in heads for number in numbers]
        else:
            heads = [head + number for number in numbers for head in heads]
    return heads


def fold(names: Iterable[str]) -> str:
    """The shortest text for ``names`` that keeps their order and duplicates: ``n3,n1,n2`` gives ``n[3,1-2]``.

    IPv4 addresses stay as they are: programs that resolve them do not expand brackets.
    """
    pairs = (_split_number(name) for name in names)
    return _fold((head + digits, "") if _is_address(head + digits) else (head, digits) for head, digits in pairs)


def refold(text: str, in_order: bool = False) -> str:
    """The list folded anew in its order, or in natural order with what comes twice: a bracket's numbers stay those that were in brackets
    (``1[1-2]``). Raises HostlistError.
    """
    pairs = [pair for parts in _parsed(text) for pair in _pairs(parts)]
    return _fold(sorted(pairs, key=_pair_key) if in_order else pairs)


def as_written(text: str) -> str:
    """The names of ``text`` once each in natural order, as scontrol shows them: a bracket's numbers stay those that were in
    brackets (``n0[1-3]``), where ``fold_sorted`` takes all digits. Raises HostlistError.
    """
    pairs = {pair for parts in _parsed(text) for pair in _pairs(parts)}
    return _fold(sorted(pairs, key=_pair_key))


def _pair_key(pair: tuple[str, str]) -> tuple[list[tuple[int, int, str]], int, int]:
    """Numbers of more digits come later, those with zeros in front too: ``1,9,01,10``."""
    return _natural_key(pair[0]), len(pair[1]), int(pair[1] or "0")


def _pairs(parts: Sequence[Part]) -> list[tuple[str, str]]:
    """The names of an entry, split into what stands before the number that is folded, and its digits."""
    *before, last = parts
    if isinstance(last, str):
        return [_split_number(name) for name in _names(parts)]
    numbers = _names([last])
    return [(head, number) for head in _names([*before, ""]) for number in numbers]


def _fold(pairs: Iterable[tuple[str, str]]) -> str:
    """``fold`` of names that are split into what stands before their number, and its digits."""
    groups: list[tuple[str, list[Range]]] = []  # prefix and ranges; no ranges: a whole name
    for prefix, digits in pairs:
        if not digits:
            groups.append((prefix, []))
            continue
        number = int(digits)
        if not groups or groups[-1][0] != prefix or not groups[-1][1]:
            groups.append((prefix, [(number, number, len(digits))]))
            continue
        ranges = groups[-1][1]
        first, last, width = ranges[-1]
        if number == last + 1 and digits == str(number).zfill(width):
            ranges[-1] = (first, number, width)
        else:
            ranges.append((number, number, len(digits)))
    return ",".join(_group_text(prefix, ranges) for prefix, ranges in groups)


def fold_sorted(names: Iterable[str]) -> str:
    """As ``fold``, of the names once each in natural order (``n2`` before ``n10``)."""
    return fold(natural_sorted(set(names)))


def natural_sorted(names: Iterable[str]) -> list[str]:
    """``names`` in Slurm's order: runs of digits compare as numbers."""
    return sorted(names, key=_natural_key)


def _parsed(text: str) -> list[list[Part]]:
    """Each comma-separated entry as its literal pieces and brackets, checked to stay below the limit."""
    entries: list[list[Part]] = []
    total = 0
    for word in _words(text):
        parts = _parts(text, word)
        total += _size(parts)
        if total > LIMIT:
            raise HostlistError(text, f"Too many hosts in range '{word}'")
        entries.append(parts)
    return entries


def _words(text: str) -> Iterator[str]:
    """The entries: up to a separator, or to the first one behind the bracket that closes the one that is open there."""
    at = 0
    while at < len(text):
        if text[at] in SEPARATORS:
            at += 1
            continue
        begin, at = at, _separator(text, at)
        while _is_open(text[begin:at]) and "]" in text[at:]:
            at = _separator(text, text.index("]", at))
        yield text[begin:at]


def _is_open(begun: str) -> bool:
    """Whether the last bracket of what has been read of an entry waits for its end."""
    return begun.count("[") > begun.count("]") and begun.rfind("[") > begun.rfind("]")


def _separator(text: str, at: int) -> int:
    """Where the next separator is; the length of ``text`` where none is."""
    while at < len(text) and text[at] not in SEPARATORS:
        at += 1
    return at


def _parts(text: str, word: str) -> list[Part]:
    """The pieces of an entry. Its last bracket decides: what is not closed there names a host, and nothing may follow what is."""
    head, bracket, inside = word.rpartition("[")
    if not bracket:
        return [word]
    inside, closing, rest = inside.partition("]")
    if not closing:
        return [head + "]" if head else inside]
    if rest:
        raise HostlistError(text, "")
    ranges: list[Part] = [[_range(text, piece) for piece in inside.split(",")]]  # its errors come first
    return [*_leading(text, head), *ranges]


def _leading(text: str, head: str) -> list[Part]:
    """The pieces before the last bracket, brackets of their own among them."""
    before, bracket, inside = head.rpartition("[")
    inside, closing, rest = inside.rpartition("]")
    if not (bracket and closing):
        return [head] if head else []
    ranges: list[Part] = [[_range(text, piece) for piece in inside.split(",")]]
    return [*_leading(text, before), *ranges, *([rest] if rest else [])]


def _range(text: str, piece: str) -> Range:
    low, dash, high = piece.partition("-")
    if not dash:
        high = low
    if not (is_number(low) and is_number(high)) or int(high) < int(low):
        raise HostlistError(text, f"_parse_single_range: Invalid range: `{piece}'")
    first, last = int(low), int(high)
    if last - first >= LIMIT:
        raise HostlistError(text, f"_parse_single_range: Too many hosts in range `{piece}'")
    return first, last, len(low)


def _size(parts: Sequence[Part]) -> int:
    size = 1
    for part in parts:
        if not isinstance(part, str):
            size *= sum(last - first + 1 for first, last, _ in part)
    return size


def _split_number(name: str) -> tuple[str, str]:
    """A name and the digits that end it (at most 18, so that any interpreter takes them): ``n07`` is ``n`` and ``07``."""
    start = len(name)
    while start > 0 and name[start - 1] in "0123456789" and len(name) - start < 18:
        start -= 1
    return name[:start], name[start:]


def _is_address(name: str) -> bool:
    """Whether ``name`` looks like an IPv4 address."""
    fields = name.split(".")
    return len(fields) == 4 and all(map(is_number, fields))


def _group_text(prefix: str, ranges: Sequence[Range]) -> str:
    if not ranges:
        return prefix
    text = _ranges_text(ranges)
    return f"{prefix}[{text}]" if "," in text or "-" in text else prefix + text


def _ranges_text(ranges: Sequence[Range]) -> str:
    texts = []
    for first, last, width in ranges:
        text = str(first).zfill(width)
        texts.append(text if first == last else f"{text}-{str(last).zfill(width)}")
    return ",".join(texts)


def _natural_key(name: str) -> list[tuple[int, int, str]]:
    key: list[tuple[int, int, str]] = []
    text = ""
    for char in name:
        if text and (char in "0123456789") != (text[0] in "0123456789"):
            key.append(_key_of(text))
            text = ""
        text += char
    return [*key, _key_of(text)] if text else key


def _key_of(run: str) -> tuple[int, int, str]:
    return (0, int(run), run) if run[0] in "0123456789" else (1, 0, run)
