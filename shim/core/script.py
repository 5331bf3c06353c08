"""The batch script as sbatch reads it: what it refuses, and the directives in it.

Directives are the lines that start with ``#SBATCH`` or, with a warning, ``#SLURM``, up to the first line that is neither blank nor a comment; any
interpreter will do. ``#PBS`` and ``#BSUB`` lines are read too (``foreign_directives``). Text is handled as str decoded with
``surrogateescape``: a script may be in any encoding, and only ASCII white space separates words.
"""

from __future__ import annotations

from shim.core.errors import PATHNAME_TOO_LONG, ShimError, submission_failed
from shim.core.formats.integers import SPACE
from shim.core.limits import LONGEST_FILE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterator, List, Optional, Tuple

MAGIC = "#SBATCH"
MISTAKEN = "#SLURM"
MISTAKEN_TEXT = "error: Change from #SLURM to #SBATCH in your script and verify the options are valid in sbatch"
_MARKS = ('"', "'", "\\", "#", " :", " hetjob", " packjob")  # what makes a directive more than words between blanks
HET_WORDS = ("hetjob", "packjob")  # in any case; what a line says behind one of them is not read
_LONGEST = 9  # characters that are looked at for one of them


def check(data: bytes) -> None:
    """Refuses what sbatch refuses as a batch script: ShimError with Slurm's text, exit code 1."""
    if not data:
        raise ShimError("error: Batch script is empty!")
    if not data.strip(SPACE.encode()):
        raise ShimError("error: Batch script contains only whitespace!")
    if not data.startswith(b"#!"):
        raise ShimError(
            "error: This does not look like a batch script.  The first",
            "error: line must start with #! followed by the path to an interpreter.",
            "error: For instance: #!/bin/sh",
        )
    if b"\0" in data:
        raise ShimError(
            "error: The Slurm controller does not allow scripts that",
            "error: contain a NULL character '\\0'.",
        )
    if b"\r\n" in data:
        raise ShimError(
            "error: Batch script contains DOS line breaks (\\r\\n)",
            "error: instead of expected UNIX line breaks (\\n).",
        )
    if len(data) > LONGEST_FILE:
        raise submission_failed("batch", PATHNAME_TOO_LONG)


def wrapped(command: str) -> str:
    """The script that ``--wrap=command`` stands for."""
    return f"#!/bin/sh\n# This script was created by sbatch --wrap.\n\n{command}\n"


def text_of(data: bytes) -> str:
    """The script as the text that the functions here take; ``bytes_of`` is its inverse."""
    return data.decode("utf-8", "surrogateescape")


def bytes_of(text: str) -> bytes:
    """The bytes of a text made by ``text_of``."""
    return text.encode("utf-8", "surrogateescape")


def printable(text: str) -> str:
    """The text with what a terminal would obey, or could not show, written out: a script may come from anybody."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one == "\t" else _written_out(one) for one in text)


def _written_out(letter: str) -> str:
    number = ord(letter)
    if 0xDC80 <= number <= 0xDCFF:  # a byte that is no text
        return f"\\x{number - 0xDC00:02x}"
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"


def unread_directives(text: str) -> Iterator[Tuple[int, str, str]]:
    """Lines that look like directives and are none: their numbers, what they say, and why sbatch does not read them."""
    read = {number for number, _ in header(text)}
    for number, line in enumerate(text.split("\n"), 1):
        words = line.strip(SPACE)
        if number not in read and line.startswith(MAGIC):
            yield number, words, "it stands below the first command"
        elif words.startswith("#") and not line.startswith(MAGIC) and _begins(words.lstrip("#").lstrip(SPACE)):
            yield number, words, f"a directive begins with {MAGIC} at the start of the line"


def _begins(text: str) -> bool:
    return text[:6].upper() == "SBATCH" and text[6:7] in ("", *SPACE) and text[6:].lstrip(SPACE)[:1] == "-"


def header(text: str) -> Iterator[Tuple[int, str]]:
    """The lines that may hold directives, with their numbers from 1: up to the first one that is a command."""
    at = 0
    number = 0
    while at < len(text):
        end = text.find("\n", at)
        if end < 0:
            end = len(text)
        line = text[at:end]
        at = end + 1
        number += 1
        start = line.lstrip(SPACE)
        if start and start[0] != "#":
            return
        yield number, line


def said(line: str) -> Optional[str]:
    """The words of a directive; None for any other line."""
    for magic in (MAGIC, MISTAKEN):
        if line.startswith(magic):
            return line[len(magic) :]
    return None


def directives(text: str, name: str) -> Iterator[Tuple[int, List[str]]]:
    """The words of each directive with its number. ``name`` is the file's, for the error about a missing quote.

    For a line that begins a component (``het_word``) there is one word, a colon, which no other line can have.
    """
    for number, line in header(text):
        rest = said(line)
        if rest is not None:
            word = het_word(rest) if "job" in rest.lower() else ""
            yield number, [":"] if word else split(rest, name, number)


def mistaken_from(text: str) -> Optional[int]:
    """From which component on sbatch warns of ``#SLURM``: it reads the header again for each one, up to its end. None: of none."""
    component = 0
    for _, line in header(text) if MISTAKEN in text else ():
        if line.startswith(MISTAKEN):
            return component
        component += bool(het_word(said(line) or ""))
    return None


def split(line: str, name: str, number: int) -> List[str]:
    """The words of a directive, quotes and comments taken away.

    Quotes group, a backslash takes the next character as it is (but cannot join words), an unquoted ``#`` ends the line
    wherever it stands, and so do a word that is empty after the quotes are gone and the words that separate components.
    Raises ShimError (``fatal``).
    """
    words: List[str] = []
    rest = line.lstrip(SPACE)
    if rest.isascii() and rest.isprintable() and not any(mark in f" {rest.lower()}" for mark in _MARKS):
        return rest.split()  # most lines: the rest of this would come to the same
    end = 0  # of what was read so far
    while True:
        at = end
        while at < len(rest) and rest[at] in SPACE:
            at += 1
        if at == len(rest) or rest[at] == "#" or (rest[at] in "hHpP" and het_word(rest[at : at + _LONGEST])):
            return words
        if rest[at] == ":":
            raise ShimError(f"fatal: {name}: line {number}: Unexpected `:` in [{rest[end:]}]")
        word, after, quote = _word(rest, at)
        if quote:
            raise ShimError(f"fatal: {name}: line {number}: Unmatched `{quote}` in [{rest[end:]}]")
        if not word:
            return words
        words.append(word)
        end = after


def het_word(text: str) -> str:
    """The word with which ``text`` begins, if it is one that separates components; else ""."""
    start = text.lstrip(SPACE)
    for word in HET_WORDS:
        if start[: len(word)].lower() == word and start[len(word) : len(word) + 1] in ("", *SPACE):
            return word
    return ""


def _word(text: str, at: int) -> Tuple[str, int, str]:
    """The word of ``text`` that begins at ``at``, where it ends, and the quote that was left open, if any."""
    letters: List[str] = []
    quote = ""
    escaped = False
    while at < len(text) and (quote or text[at] not in SPACE):
        letter = text[at]
        if escaped:
            escaped = False
            letters.append(letter)
        elif letter == "\\":
            escaped = True
        elif quote:
            if letter == quote:
                quote = ""
            else:
                letters.append(letter)
        elif letter in "\"'":
            quote = letter
        elif letter == "#":
            break
        else:
            letters.append(letter)
        at += 1
    return "".join(letters), at, quote


def candidates(name: str, directory: str, path: str) -> Iterator[str]:
    """Where a script of that name may be, other than in the working directory, where it is looked for last.

    ``directory`` is --chdir's or the working directory. A name that begins with a dot or a slash is what it says; any other
    is looked for there and along ``path`` ($PATH), even if there are slashes in it.
    """
    if name[:1] not in (".", "/"):
        for folder in (directory, *path.split(":")):
            if folder.startswith("/"):
                yield f"{folder}/{name}"
