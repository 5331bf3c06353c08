"""The grammar of command lines: getopt_long as the C library has it, with its messages.

Exact names before unique prefixes, clustered short options, attached values, optional values only in attached form, ``--``
ends the options. sbatch, srun and salloc stop at the first word that is no option (what follows belongs to the script);
the query commands find options after such words too.
"""

from __future__ import annotations

from shim.core.errors import UsageError, plain
from shim.core.options.option import FLAG, REQUIRED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Optional, Sequence, Tuple

    from shim.core.options.option import Option, Table

    Found = Tuple[Option, Optional[str]]


def parse(
    program: str,
    argv: Sequence[str],
    options: Table,
    permute: bool = False,
    code: int = 255,
    found: Optional[List[Found]] = None,
) -> Tuple[List[Found], List[str]]:
    """The options of ``argv`` with their values, in order, and the words that are left.

    ``argv`` excludes the program's name. A value is None when the option has none. ``permute``: look for options behind
    other words as well. UsageError (exit code ``code``) with the C library's message and Slurm's hint; what stood before
    the mistake is then in ``found``, if the caller gave a list.
    """
    found = [] if found is None else found
    words: List[str] = []
    at = 0
    while at < len(argv):
        word = argv[at]
        at += 1
        try:
            if word == "--":
                words.extend(argv[at:])
                break
            if word.startswith("--"):
                at = _long(word, argv, at, options, found)
            elif word.startswith("-") and word != "-":
                at = _shorts(word, argv, at, options, found)
            elif permute:
                words.append(word)
            else:
                words.extend(argv[at - 1 :])
                break
        except _Refused as refused:
            raise UsageError(
                refused.args[0], plain(f'Try "{program} --help" for more information'), code=code
            ) from None
    return found, words


class _Refused(Exception):
    """A word that the grammar refuses; its argument is the message."""


def _long(word: str, argv: Sequence[str], at: int, options: Table, found: List[Found]) -> int:
    """Reads ``--name``, ``--name=value`` or ``--name value``; where to go on."""
    name, equals, attached = word[2:].partition("=")
    option = match_long(name, word, options)
    value: Optional[str] = None
    if equals:
        if option.arity == FLAG:
            raise _Refused(f"option '--{option.long}' doesn't allow an argument")
        value = attached
    elif option.arity == REQUIRED:
        if at >= len(argv):
            raise _Refused(f"option '--{option.long}' requires an argument")
        value = argv[at]
        at += 1
    found.append((option, value))
    return at


def match_long(name: str, word: str, options: Table) -> Option:
    """The option that ``name`` means; ``word`` is what the user typed, for the messages."""
    exact = options.by_name.get(name)
    if exact is not None:
        return exact
    first: Optional[Option] = None
    others: List[Option] = []
    for option in options:
        if option.long.startswith(name):
            if first is None:
                first = option
            elif option.field != first.field or option.arity != first.arity:
                others.append(option)
    if first is None:
        raise _Refused(f"unrecognized option '{word}'")
    if others:
        possible = " ".join(f"'--{option.long}'" for option in [first, *others])
        raise _Refused(f"option '{word}' is ambiguous; possibilities: {possible}")
    return first


def _shorts(word: str, argv: Sequence[str], at: int, options: Table, found: List[Found]) -> int:
    """Reads a cluster such as ``-Hn4``; where to go on."""
    for index in range(1, len(word)):
        letter = word[index]
        option = options.by_letter.get(letter)
        if option is None:
            byte = letter.encode("utf-8", "surrogateescape")[:1]  # getopt knows bytes only
            raise _Refused(f"invalid option -- '{byte.decode('utf-8', 'surrogateescape')}'")
        if option.arity == FLAG:
            found.append((option, None))
            continue
        rest = word[index + 1 :]
        if rest:
            found.append((option, rest))
        elif option.arity == REQUIRED:
            if at >= len(argv):
                raise _Refused(f"option requires an argument -- '{letter}'")
            found.append((option, argv[at]))
            at += 1
        else:
            found.append((option, None))
        break
    return at
