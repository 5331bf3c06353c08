"""Commands that are read one a line where none was given with the program: scontrol, sacctmgr."""

from __future__ import annotations

import sys

from shim.commands import output
from shim.core import memo
from shim.core.errors import ShimError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def converse(program: str, perform: Callable[[list[str]], int], over: Callable[[], bool]) -> int:
    """Reads commands and has each performed until one of them ends it, or the input does; the exit code of the last that failed, else 0.

    ``!!`` is the command before.
    """
    code = 0
    last: list[str] = []
    while not over():
        sys.stdout.write(f"{program}: ")
        sys.stdout.flush()
        line = sys.stdin.readline() if sys.stdin is not None else ""
        if not line or not sys.stdin.isatty():
            sys.stdout.write(line or "\n")  # as readline shows what it read where nobody types
        if not line:
            break
        words = split(line)
        if words == ["!!"]:
            words = last
        if not words:
            continue
        last = words
        memo.renew()
        try:
            code = perform(words) or code
        except ShimError as error:
            code = output.say_error(program, error)
    return code


def split(line: str) -> list[str]:
    """The words of a line; quotes group."""
    words: list[str] = []
    word = ""
    quote = ""
    inside = False
    for character in line:
        if quote:
            if character == quote:
                quote = ""
            else:
                word += character
        elif character in "\"'":
            quote = character
            inside = True
        elif character.isspace():
            if word or inside:
                words.append(word)
            word, inside = "", False
        else:
            word += character
    return [*words, word] if word or inside else words
