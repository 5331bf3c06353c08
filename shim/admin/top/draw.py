"""Lines of a page as a terminal is told to show them, as plain text, and as a picture."""

from __future__ import annotations

from collections.abc import Sequence

from shim.admin.top.cells import wide

Line = list[tuple[str, str]]  # parts: text and style
_CODES = {"": "", "bold": "1", "dim": "2", "reverse": "7", "red": "31", "green": "32", "yellow": "33"}
_COLOURS = ("red", "green", "yellow")
_RAMP = str.maketrans("▁▂▃▄▅▆▇█", ".:-=+*#@")  # where the terminal has no such letters


def plain(line: Line) -> str:
    """The text of a line."""
    return "".join(text for text, _ in line).rstrip()


def obeyed(line: Line, *, colours: bool = True, unicode: bool = True) -> str:
    """The line as a terminal obeys it."""
    found = []
    for text, style in line:
        code = _CODES[style] if colours or style not in _COLOURS else ""
        found.append(f"\x1b[{code}m{text}\x1b[0m" if code and text else text)
    whole = "".join(found)
    return whole if unicode else whole.translate(_RAMP).encode("ascii", "replace").decode()


class Painter:
    """What the terminal shows by now: only lines that have changed are sent, so that a page over ssh costs little."""

    def __init__(self, *, colours: bool = True, unicode: bool = True) -> None:
        self._colours = colours
        self._unicode = unicode
        self._shown: list[str] = []

    def forget(self) -> None:
        """Nobody knows what the terminal shows."""
        self._shown = []

    def painted(self, lines: Sequence[Line]) -> str:
        """What the terminal is to be sent, so that it shows these lines."""
        wanted = [obeyed(line, colours=self._colours, unicode=self._unicode) for line in lines]
        sent = [] if self._shown else ["\x1b[2J"]
        for number, text in enumerate(wanted):
            if number >= len(self._shown) or self._shown[number] != text:
                sent.append(f"\x1b[{number + 1};1H\x1b[K{text}")
        for number in range(len(wanted), len(self._shown)):
            sent.append(f"\x1b[{number + 1};1H\x1b[K")
        self._shown = wanted
        return "".join(sent)


_CELL, _ROW, _EDGE = 8.4, 18.0, 12.0  # pixels
_INK, _PAPER = "#d0d7e2", "#10151d"
_FILLS = {
    "red": "#ff6b6b",
    "green": "#5fd38d",
    "yellow": "#e5c07b",
    "dim": "#8a93a3",
    "bold": "#ffffff",
    "reverse": _PAPER,
}


def picture(lines: Sequence[Line], columns: int) -> str:
    """The page as SVG: the same for the same lines, whatever is installed, and with nothing in it that is loaded from elsewhere."""
    width, height = columns * _CELL + 2 * _EDGE, len(lines) * _ROW + 2 * _EDGE
    found = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}">',
        f'<rect width="{width:g}" height="{height:g}" rx="8" fill="{_PAPER}"/>',
        f'<g font-family="monospace" font-size="14" fill="{_INK}">',
    ]
    for number, line in enumerate(lines):
        found += _drawn(line, _EDGE + number * _ROW)
    return "\n".join([*found, "</g>", "</svg>"]) + "\n"


def _drawn(line: Line, top: float) -> list[str]:
    found, column = [], 0
    for text, style in line:
        left, size = _EDGE + column * _CELL, wide(text) * _CELL
        column += wide(text)
        if style == "reverse":
            found.append(f'<rect x="{left:g}" y="{top:g}" width="{size:g}" height="{_ROW:g}" fill="{_INK}"/>')
        for found_at, word in _words(text):
            left, size = _EDGE + (column - wide(text) + found_at) * _CELL, wide(word) * _CELL
            fill = f' fill="{_FILLS[style]}"' if style else ""
            weight = ' font-weight="bold"' if style == "bold" else ""
            found.append(
                f'<text x="{left:g}" y="{top + 13:g}" textLength="{size:g}"{fill}{weight}>{_escaped(word)}</text>'
            )
    return found


def _words(text: str) -> list[tuple[int, str]]:
    """The words, each with the column that it begins in: viewers disagree on blanks."""
    found, column = [], 0
    for number, word in enumerate(text.split(" ")):
        column += number > 0
        if word:
            found.append((column, word))
        column += wide(word)
    return found


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
