"""Patterns of a .gitignore file, as git reads them (gitignore(5), its wildmatch): which paths below the file's folder they leave out.

Names are bytes to git, and here.
"""

from __future__ import annotations

import os
import re
import string

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Optional, Set, Tuple

    Pattern = re.Pattern[bytes]

_CLASSES = {
    b"alnum": string.ascii_letters + string.digits,
    b"alpha": string.ascii_letters,
    b"blank": " \t",
    b"cntrl": "".join(map(chr, [*range(32), 127])),
    b"digit": string.digits,
    b"graph": string.ascii_letters + string.digits + string.punctuation,
    b"lower": string.ascii_lowercase,
    b"print": string.ascii_letters + string.digits + string.punctuation + " ",
    b"punct": string.punctuation,
    b"space": " \t\n\r\x0b\x0c",
    b"upper": string.ascii_uppercase,
    b"xdigit": string.hexdigits,
}
_BACKSLASH, _SLASH, _STAR, _QUERY, _OPEN, _CLOSE, _DASH = b"\\/*?[]-"


class _Malformed(Exception):
    """A pattern that matches nothing."""


class Rule:
    """One line: ``keep`` for one with ``!``."""

    def __init__(self, regex: Pattern, keep: bool, folder_only: bool, anchored: bool) -> None:
        self.regex = regex
        self.keep = keep
        self.folder_only = folder_only
        self.anchored = anchored

    def matches(self, path: bytes, folder: bool) -> bool:
        """Whether it is about this path."""
        if self.folder_only and not folder:
            return False
        return self.regex.fullmatch(path if self.anchored else path.rpartition(b"/")[2]) is not None


class Ignore:
    """The patterns of some files, one after the other."""

    def __init__(self, *contents: bytes) -> None:
        self._rules = [rule for content in contents for rule in rules(content)]

    def out(self, path: str, folder: bool) -> bool:
        """Whether a path (relative) is left out; the last pattern about it counts. What is in a folder that is out is not asked for."""
        name = os.fsencode(path)
        found = False
        for rule in self._rules:
            if rule.matches(name, folder):
                found = not rule.keep
        return found


def rules(content: bytes) -> List[Rule]:
    """What the lines of a file say; lines that match nothing are not there."""
    lines = content.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    found = map(_rule, [line[:-1] if line.endswith(b"\r") else line for line in lines])
    return [rule for rule in found if rule is not None]


def _rule(line: bytes) -> Optional[Rule]:
    text = _without_trailing_spaces(line.partition(b"\0")[0])
    if not text or text.startswith(b"#"):
        return None
    keep = text.startswith(b"!")
    text = text[1:] if keep else text
    folder_only = text.endswith(b"/")
    text = text[:-1] if folder_only else text
    anchored = b"/" in text
    try:
        regex = re.compile(_translated(text[1:] if text.startswith(b"/") else text, anchored), re.DOTALL)
    except _Malformed:
        return None
    return Rule(regex, keep, folder_only, anchored)


def _without_trailing_spaces(line: bytes) -> bytes:
    """Spaces at the end do not count, but for one behind a backslash."""
    end = position = 0
    while position < len(line):
        position += 2 if line[position] == _BACKSLASH else 1
        if line[position - 1 : position] != b" " or line[position - 2 : position - 1] == b"\\":
            end = position
    return line[:end]


def _translated(text: bytes, paths: bool) -> bytes:
    """The regular expression of a pattern; ``paths``: a slash is matched by nothing but slashes and ``**``."""
    one = b"[^/]" if paths else b"."
    # To git a pattern begins behind what stands for itself: ``**`` is one in ``ab**/c``, too.
    plain = next((at for at, sign in enumerate(text) if sign in (_STAR, _QUERY, _OPEN, _BACKSLASH)), len(text))
    made: List[bytes] = []
    position = 0
    while position < len(text):
        sign = text[position]
        if sign == _STAR:
            end = position
            while text[end : end + 1] == b"*":
                end += 1
            deep = end - position > 1 and paths and (position == plain or text[:position].endswith(b"/"))
            if deep and text[end : end + 1] == b"/":
                made.append(b"(?:.*/)?")
                end += 1
            elif deep and (end == len(text) or text[end : end + 2] == b"\\/"):
                made.append(b".*")
            else:
                made.append(one + b"*")
            position = end
            continue
        if sign == _OPEN:
            chosen, position = _bracket(text, position + 1)
            made.append(_one_of(chosen - {_SLASH} if paths else chosen))
            continue
        if sign == _BACKSLASH:
            position += 1
            if position == len(text):
                raise _Malformed
        made.append(one if sign == _QUERY else re.escape(text[position : position + 1]))
        position += 1
    return b"".join(made)


def _one_of(chosen: Set[int]) -> bytes:
    if not chosen:
        return b"(?!)"
    return b"[" + b"".join(b"\\x%02x" % byte for byte in sorted(chosen)) + b"]"


def _bracket(text: bytes, position: int) -> Tuple[Set[int], int]:
    """The bytes that a bracket stands for, from behind ``[`` on, and where it ends."""
    negated = text[position : position + 1] in (b"!", b"^")
    position += negated
    chosen: Set[int] = set()
    before = 0  # a range may begin with it
    while True:
        sign = _at(text, position)
        if sign == _BACKSLASH:
            position += 1
            sign = _at(text, position)
            chosen.add(sign)
        elif sign == _DASH and before and text[position + 1 : position + 2] not in (b"", b"]"):
            position += 1
            if text[position] == _BACKSLASH:
                position += 1
            chosen.update(range(before, _at(text, position) + 1))
            sign = 0
        elif sign == _OPEN and text[position + 1 : position + 2] == b":":
            position, sign = _class(text, position, chosen)
        else:
            chosen.add(sign)
        before = sign
        position += 1
        if _at(text, position) == _CLOSE:
            return ({*range(256)} - chosen if negated else chosen), position + 1


def _class(text: bytes, position: int, chosen: Set[int]) -> Tuple[int, int]:
    """``[:alpha:]`` at ``position``: the last byte of it, and 0; of what only looks like one, the bracket alone."""
    end = text.find(b"]", position + 2)
    if end < 0:
        raise _Malformed
    if text[end - 1 : end] != b":" or end - 1 < position + 2:
        chosen.add(_OPEN)
        return position, _OPEN
    name = text[position + 2 : end - 1]
    if name not in _CLASSES:
        raise _Malformed
    chosen.update(_CLASSES[name].encode("ascii"))
    return end, 0


def _at(text: bytes, position: int) -> int:
    if position >= len(text):
        raise _Malformed
    return text[position]
