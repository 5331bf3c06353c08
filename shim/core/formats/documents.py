"""Nested data as the text of ``--json`` and ``--yaml``, laid out as Slurm's serializers (json-c, libyaml) lay it out.

Data are dicts, lists, str, int, float, bool and None. Slurm says a text that is not set as ``""`` in JSON and as null in YAML, so a
text that is empty here is one that is not set.
"""

from __future__ import annotations

from shim.core.jsonlite import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator

_INDICATORS = "-?:,[]{}#&*!|>'\"%@`"
_WORDS = ("~", "null", "true", "false")


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


def yaml_text(data: dict[str, Any]) -> str:
    """The document, every value with its tag, without a newline at its end."""
    return "%YAML 1.1\n--- !!map\n" + "\n".join([*_map(data, ""), "..."])


def _map(data: dict[str, Any], indent: str) -> Iterator[str]:
    for name, value in data.items():
        yield from _yaml(value, f"{indent}!!str {_plain(name)}: ", indent)


def _yaml(value: Any, head: str, indent: str) -> Iterator[str]:
    if isinstance(value, dict):
        yield f"{head}!!map" + ("" if value else " {}")
        yield from _map(value, indent + "  ")
    elif isinstance(value, list):
        yield f"{head}!!seq" + ("" if value else " []")
        for item in value:
            yield from _yaml(item, f"{indent}- ", indent + "  " if isinstance(item, list) else indent)
    else:
        yield head + _scalar(value)


def _scalar(value: object) -> str:
    if value is None or value == "":
        return "!!null null"
    if isinstance(value, bool):
        return f"!!bool {'true' if value else 'false'}"
    if isinstance(value, int):
        return f"!!int {value}"
    if isinstance(value, float):
        return f"!!float {value:f}"
    return f"!!str {_plain(str(value))}"


def _plain(text: str) -> str:
    """The text as it is, where YAML takes it for itself; else in quotes."""
    if any(_is_special(letter) for letter in text):
        return '"' + "".join(_double(letter) for letter in text) + '"'
    plain = text and text[0] not in _INDICATORS and text[0] != " " and text[-1] not in " :"
    if plain and ": " not in text and " #" not in text and text.lower() not in _WORDS:
        return text
    return "'" + text.replace("'", "''") + "'"


def _is_special(letter: str) -> bool:
    """Whether a document may not hold it as it is, or takes it for the end of a line."""
    return (
        letter < " " or "\x7f" <= letter <= "\x9f" or letter in "\u2028\u2029\ufeff" or "\ud800" <= letter <= "\udfff"
    )


def _double(letter: str) -> str:
    if letter in '"\\':
        return "\\" + letter
    if not _is_special(letter):
        return letter
    number = ord(letter)
    return _ESCAPES.get(letter) or (f"\\x{number:02X}" if number < 256 else f"\\u{number:04X}")
