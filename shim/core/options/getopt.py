"""Options as the C library's getopt_long has them: what is known of an option (``Row``), a command's table, reading a command line.

Exact names before unique prefixes, clustered short options, attached values, optional values only in attached form, ``--``
ends the options. sbatch, srun and salloc stop at the first word that is no option (what follows belongs to the script);
the query commands find options after such words too.
"""

from __future__ import annotations

from shim.core.errors import UsageError, plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple, TypedDict

    class _Named(TypedDict):
        name: str

    class Row(_Named, total=False):
        """All that is known of an option of a command. What a row does not say has the value named here.

        On the command line
            name          its long spelling
            short         its letter; none
            takes         its value as ``--help`` shows it: ``=count``, or ``[=kind]`` for one that is only taken attached; no value
            spelling_of   the option that it is another name of, which has all that follows; none
            letter_only   it has no long spelling (scrontab): ``name`` is for us alone; False
            adds_up       given several times (queries) it means all that was said; the last one counts
            early         sbatch obeys it before it reads the script: no directive sets it; False
        Where it is there (sbatch, srun, salloc)
            on            the commands that have it; all three
            since, until  the one of the two releases, 22.05 and 25.11, that has it; both
            plugin        a site's plugin has added it; False
        In variables
            env           the variables that set it, the last one that is set winning. Of sbatch, srun and salloc each reads its own
                          (SBATCH_, SALLOC_, srun all others) and those with a ``*``; ``+`` and ``-`` mark those that only
                          25.11 and only 22.05 has
        Its value
            kind          how it is read, shown by ``-v`` and written again: ``values``; text, or flag where it takes no value
            stands_for    the value that a site's own flag means
            shown         what ``-v`` shows for every value
        What it asks for
            job           the field of JobRequest that is its value; ``extra``: its text is recorded there; ``*field``: ``build`` makes
                          the field of this and other values
            step          the field of StepRequest, likewise
            sixteen_bits  Slurm keeps 16 bits of it; False
            anew          the next component of a heterogeneous job starts without it; False: it has the value of the one before
        What is said of it
            section       the part of ``--help`` (a key of ``help.SECTIONS``)
            help          what it does
            support       what becomes of it here: honoured, approximated, inert or refused (``support``), with the reason behind a
                          colon; honoured
            kubernetes    what becomes of it in pods, where that differs
        """

        short: str
        takes: str
        spelling_of: str
        letter_only: bool
        adds_up: bool
        early: bool
        on: str
        since: str
        until: str
        plugin: bool
        env: str
        kind: str
        stands_for: str
        shown: str
        job: str
        step: str
        sixteen_bits: bool
        anew: bool
        section: str
        help: str
        support: str
        kubernetes: str


FLAG = 0  # takes no value
REQUIRED = 1  # ``--opt=value``, ``--opt value``, ``-ovalue``, ``-o value``
OPTIONAL = 2  # a value only as ``--opt=value`` or ``-ovalue``

IGNORED = "ignored"  # the kind of a plugin's option that has no effect here


class Option:
    """An option of one command: ``row`` as getopt needs it, with the variables that set it (``env``).

    ``field`` is the name its value is stored under: two spellings of the same option share it (and are no ambiguity for an
    abbreviation). ``stands_for``: the value that a site's own flag means; None for all others.
    """

    __slots__ = ("arity", "env", "field", "kind", "long", "row", "short", "stands_for")

    def __init__(self, row: Row, env: Sequence[str] = ()) -> None:
        takes = row.get("takes")
        self.row = row
        self.long = row["name"]
        self.short = row.get("short", "")
        self.arity = FLAG if not takes else OPTIONAL if takes[0] == "[" else REQUIRED
        self.kind = row.get("kind") or ("text" if takes else "flag")
        self.env = env
        self.field = row.get("spelling_of") or self.long
        self.stands_for = row.get("stands_for")

    def __repr__(self) -> str:
        return f"Option(--{self.long})"


def _variables(row: Row) -> Sequence[str]:
    return row.get("env", "").split()


class Table:
    """The options of a command in Slurm's order. ``variables`` tells those of a row that the command reads, ``advice`` what to do
    about a word that is refused, behind Slurm's own lines. ``late``: the row for a name that no row of the table has, if that is an
    option all the same.

    Options are made when they are asked for: a command line has few of them.
    """

    __slots__ = ("_made", "advice", "by_name", "late", "rows", "variables")

    def __init__(
        self,
        rows: Iterable[Row],
        variables: Callable[[Row], Sequence[str]] = _variables,
        advice: Callable[[str, Sequence[str]], List[str]] = lambda word, argv: [],
        late: Callable[[str], Optional[Row]] = lambda name: None,
    ) -> None:
        self.advice = advice
        self.late = late
        self.rows: Tuple[Row, ...] = tuple(rows)
        self.variables = variables
        self.by_name: Dict[str, Row] = {row["name"]: row for row in self.rows}
        self._made: Dict[str, Option] = {}

    def __iter__(self) -> Iterator[Option]:
        return map(self.option, self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def option(self, row: Row) -> Option:
        """The option of one of the table's rows."""
        made = self._made.get(row["name"])
        if made is None:
            made = self._made[row["name"]] = Option(row, self.variables(row))
        return made

    def named(self, long: str) -> Optional[Option]:
        """The option with exactly this name."""
        row = self.by_name.get(long)
        return None if row is None or "letter_only" in row else self.option(row)

    def lettered(self, letter: str) -> Optional[Option]:
        """The option with this letter; of several spellings the last one."""
        for row in reversed(self.rows):
            if row.get("short") == letter:
                return self.option(row)
        return None


if TYPE_CHECKING:
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
            more = options.advice(word, argv)
            raise UsageError(
                refused.args[0], plain(f'Try "{program} --help" for more information'), *more, code=code
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
    exact = options.named(name)
    if exact is not None:
        return exact
    first: Optional[Option] = None
    others: List[Option] = []
    for row in options.rows:
        if row["name"].startswith(name) and "letter_only" not in row:
            option = options.option(row)
            if first is None:
                first = option
            elif option.field != first.field or option.arity != first.arity:
                others.append(option)
    late = options.late(name) if first is None else None
    if late is not None:
        return options.option(late)
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
        option = options.lettered(letter)
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
