"""How PMI requests and answers are written: PMI-1 in lines, PMI-2 in pieces with their length before them."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterable, Mapping

LONGEST = 1 << 20  # bytes of one request
_DIGITS = 6  # of the length before a request of PMI-2


class BadRequest(ValueError):
    """What came is no request."""


def take(buffer: bytearray, version: int) -> dict[str, str] | None:
    """The first whole request in ``buffer``, which it is removed from; None while it is not all there. BadRequest for what is none.

    ``version`` 0: nothing is agreed on yet; the first request is a line in both versions.
    """
    text = _piece(buffer) if version == 2 else _line(buffer)
    if text is None:
        return None
    found = _pairs(text) if version == 2 else _words(text)
    if "cmd" not in found:
        raise BadRequest(text[:80])
    return found


def _line(buffer: bytearray) -> str | None:
    end = buffer.find(b"\n")
    if buffer.startswith(b"mcmd="):  # several lines, which end with one of their own
        end = buffer.find(b"endcmd\n")
        end = end + 6 if end >= 0 else -1
    if end < 0:
        if len(buffer) > LONGEST:
            raise BadRequest("a line without an end")
        return None
    line = _text(buffer[:end])
    del buffer[: end + 1]
    return line[1:].replace("\n", " ") if line.startswith("mcmd=") else line


def _piece(buffer: bytearray) -> str | None:
    if len(buffer) < _DIGITS:
        return None
    try:
        size = int(bytes(buffer[:_DIGITS]))
    except ValueError:
        raise BadRequest("no length") from None
    if size < 0:
        raise BadRequest("a negative length")
    if len(buffer) < _DIGITS + size:
        return None
    text = _text(buffer[_DIGITS : _DIGITS + size])
    del buffer[: _DIGITS + size]
    return text


def _words(line: str) -> dict[str, str]:
    """``cmd=put key=a value=b``: the last value, of a put, may have blanks in it."""
    found: dict[str, str] = {}
    rest = line.strip()
    while rest:
        name, equals, rest = rest.partition("=")
        if not equals:
            break
        if name == "value":
            found[name] = rest
            break
        value, _, rest = rest.partition(" ")
        found[name.strip()] = value
        rest = rest.lstrip()
    return found


def _pairs(text: str) -> dict[str, str]:
    """``cmd=kvs-put;key=a;value=b;;c;``: a doubled semicolon is one of the value."""
    found = {}
    for pair in text.replace(";;", "\0").split(";"):
        name, equals, value = pair.partition("=")
        if equals:
            found[name] = value.replace("\0", ";")
    return found


def answer(version: int, command: str, fields: Iterable[tuple[str, object]]) -> bytes:
    """An answer: its command, then its fields in this order."""
    pairs = [("cmd", command), *((name, str(value)) for name, value in fields)]
    if version == 2:
        text = "".join(f"{name}={value.replace(';', ';;')};" for name, value in pairs)
        data = _bytes(text)
        return b"%*d" % (_DIGITS, len(data)) + data
    return _bytes(" ".join(f"{name}={value}" for name, value in pairs) + "\n")


def mapping(nodes: Mapping[int, int]) -> str:
    """PMI_process_mapping: on which node each rank is. ``nodes``: rank → position of its node, of all ranks from 0 on.

    Blocks of (first node, how many nodes, ranks on each), which MPICH repeats until all ranks are placed.
    """
    runs: list[list[int]] = []  # node, ranks that follow each other there
    for rank in range(len(nodes)):
        if runs and runs[-1][0] == nodes[rank]:
            runs[-1][1] += 1
        else:
            runs.append([nodes[rank], 1])
    length = next(
        size
        for size in range(1, len(runs) + 1)
        if len(runs) % size == 0 and all(run == runs[place % size] for place, run in enumerate(runs))
    )
    blocks: list[list[int]] = []
    for node, ranks in runs[:length]:
        if blocks and blocks[-1][2] == ranks and blocks[-1][0] + blocks[-1][1] == node:
            blocks[-1][1] += 1
        else:
            blocks.append([node, 1, ranks])
    return "(vector," + ",".join(f"({first},{count},{ranks})" for first, count, ranks in blocks) + ")"


def _text(data: bytes | bytearray) -> str:
    return bytes(data).decode("utf-8", "surrogateescape")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
