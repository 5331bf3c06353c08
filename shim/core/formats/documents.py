"""Nested data as the text of ``--json`` and ``--yaml``, laid out as Slurm's serializers (json-c, libyaml) lay it out.

Data are dicts, lists, str, int, float, bool and None. squeue and sinfo of 22.05 say a text that is not set as ``""`` in JSON and
as null in YAML, so a text that is empty in their documents is one that is not set.
"""

from __future__ import annotations

from shim.core.jsonlite import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator

_INDICATORS = ",[]{}#&*!|>'\"%@`"  # at the start of a text
_WIDTH = 80


def json_text(data: Any) -> str:
    """The document, without a newline at its end."""
    return "".join(_json(data, "\n"))


def _json(data: Any, line: str) -> Iterator[str]:
    inner = line + "  "
    if isinstance(data, dict):
        yield "{"
        for place, (name, value) in enumerate(data.items()):
            yield ("," if place else "") + inner + _quoted(name) + ": "
            yield from _json(value, inner)
        yield line + "}"
    elif isinstance(data, list):
        yield "["
        for place, value in enumerate(data):
            yield ("," if place else "") + inner
            yield from _json(value, inner)
        yield line + "]"
    else:
        yield _quoted(data) if isinstance(data, str) else dumps(data)


def _quoted(text: str) -> str:
    found = ['"']
    for letter in text:
        if letter in '"\\/':
            found.append("\\" + letter)
        elif letter < " ":
            found.append(_ESCAPES.get(letter) or f"\\u{ord(letter):04x}")
        else:
            found.append(letter)
    return "".join([*found, '"'])


_ESCAPES = {"\b": "\\b", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}
_YAML_ESCAPES = {
    **_ESCAPES,
    "\0": "\\0",
    "\a": "\\a",
    "\v": "\\v",
    "\x1b": "\\e",
    "\x85": "\\N",
    "\xa0": "\\_",
    "\u2028": "\\L",
    "\u2029": "\\P",
}


def yaml_text(data: dict[str, Any], *, unset: str = "!!null null") -> str:
    """The document, every value with its tag, without a newline at its end. ``unset``: what a text that is empty is written as."""
    return "%YAML 1.1\n--- !!map\n" + "\n".join([*_map(data, "", unset), "..."])


def _map(data: dict[str, Any], indent: str, unset: str) -> Iterator[str]:
    for name, value in data.items():
        yield from _yaml(value, f"{indent}!!str {_written(name, 0, '')}: ", indent, unset)


def _yaml(value: Any, head: str, indent: str, unset: str) -> Iterator[str]:
    if isinstance(value, dict):
        yield f"{head}!!map" + ("" if value else " {}")
        yield from _map(value, indent + "  ", unset)
    elif isinstance(value, list):
        yield f"{head}!!seq" + ("" if value else " []")
        for item in value:
            yield from _yaml(item, f"{indent}- ", indent + "  " if isinstance(item, list) else indent, unset)
    elif value == "":
        yield head + unset
    elif isinstance(value, str):
        yield f"{head}!!str " + _written(value, len(head) + 6, f"\n{indent}  ")
    else:
        yield head + _scalar(value)


def _scalar(value: object) -> str:
    if value is None:
        return "!!null null"
    if isinstance(value, bool):
        return f"!!bool {'true' if value else 'false'}"
    return f"!!int {value}" if isinstance(value, int) else f"!!float {value:f}"


def _written(text: str, column: int, line: str) -> str:
    """The text as it is, where YAML takes it for itself; else in quotes. What passes the 80th column goes on, after a blank, on the
    next line, which begins with ``line``.
    """
    if any(not " " <= letter <= "~" and letter != "\n" for letter in text) or " \n" in text or "\n " in text:
        return '"' + _folded([_double(letter) for letter in text], column + 1, line, "\\") + '"'
    if "\n" in text or _is_marked(text):
        broken = [{"\n": line, "'": "''"}.get(letter, letter) for letter in text]
        for place in range(len(text)):
            if text[place] == "\n" and text[place - 1 : place] != "\n":
                broken[place] = "\n" + line  # the first end of line of several is not counted
        return "'" + _folded(broken, column + 1, line) + "'"
    return _folded(list(text), column, line)


def _is_marked(text: str) -> bool:
    """Whether YAML would see more in the text than itself: a mark at its start, an end, a pair or a comment in it."""
    first, second = text[0], text[1:2]
    return (
        first in _INDICATORS
        or (first in "-?:" and second in ("", " "))
        or text[:3] in ("---", "...")
        or text[0] == " "
        or text[-1] in " :"
        or ": " in text
        or " #" in text
    )


def _folded(letters: list[str], column: int, line: str, guard: str = "") -> str:
    """The letters, with ends of line for blanks beyond the last column. ``guard`` stands before a blank that begins a line."""
    whole = "".join(letters)
    if column + len(whole) <= _WIDTH:
        return whole
    found = []
    last = len(letters) - 1
    for place, letter in enumerate(letters):
        alone = letters[place - 1] != " " and (guard or letters[place + 1 : place + 2] != [" "])
        if letter == " " and column > _WIDTH and 0 < place < last and alone:
            letter = line + (guard if letters[place + 1] == " " else "")
        found.append(letter)
        column = len(letter.rpartition("\n")[2]) + (0 if "\n" in letter else column)
    return "".join(found)


def _double(letter: str) -> str:
    if letter in '"\\':
        return "\\" + letter
    if " " <= letter <= "~":
        return letter
    number = ord(letter)
    form = "\\x{:02X}" if number < 0x100 else "\\u{:04X}" if number < 0x10000 else "\\U{:08X}"
    return _YAML_ESCAPES.get(letter) or form.format(number)
