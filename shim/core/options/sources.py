"""One submission's options from all their sources: directives, then the environment, then the command line.

Later sources win, but every value of every source is read: a bad one is an error even where another overrides it.
"""

from __future__ import annotations

from shim.core.errors import UsageError
from shim.core.options.getopt import IGNORED, parse
from shim.core.options.submit_options import options_of, row_of
from shim.core.options.value_parsing import PrintAndExit
from shim.core.options.values import value_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

    from shim.core.options.getopt import Option, Row, Table
    from shim.core.options.grammar import Grammar
    from shim.core.options.values import Context

DIRECTIVE = "directive"
ENVIRONMENT = "environment"
COMMAND_LINE = "command line"

_TEXTS = ("help", "usage", "version")
_STORED_AS = {"cluster": "clusters"}
GEOMETRY = ("sockets-per-node", "cores-per-socket", "threads-per-core")
_NODE_NAMES = {"nodefile": "nodelist", "nodelist": "nodefile"}


class Settings:
    """What one invocation asks for: values by option name (``get``, ``in``), and where each comes from.

    ``ntasks``, ``mem-per-cpu`` …: the long names of the tables; another spelling is stored under the usual one. ``texts`` has
    each value as it was written. ``exclusive`` and ``oversubscribe`` are one setting in two words, kept in ``shared``. ``ignored``:
    the plugins' options that were given and have no effect at this site. ``hostfile``: the file of SLURM_HOSTFILE, if it counts.
    """

    def __init__(self, command: str, context: Context) -> None:
        self.command = command
        self.context = context
        self.values: Dict[str, Any] = {}
        self.sources: Dict[str, str] = {}
        self.texts: Dict[str, str] = {}
        self.shared: Optional[str] = None
        self.ignored: List[str] = []
        self.hostfile: Optional[str] = None

    @property
    def table(self) -> Table:
        """The options that the command has at this site."""
        return options_of(self.command, self.context.grammar)

    def row(self, name: str) -> Row:
        """What is known of the option ``name``."""
        return self.table.by_name.get(name) or row_of(name)

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def get(self, name: str, default: Any = None) -> Any:
        """The value of the option ``name``; ``default`` if it is not set."""
        return self.values.get(name, default)

    def given(self, name: str) -> bool:
        """Whether the command line or the script (not the environment) sets the option."""
        return self.sources.get(name, ENVIRONMENT) != ENVIRONMENT

    def drop(self, name: str) -> None:
        """Forgets the option."""
        self.values.pop(name, None)
        self.sources.pop(name, None)

    def put(self, option: Option, text: Optional[str], source: str) -> None:
        """Reads one option. ShimError with Slurm's text if the value is bad, PrintAndExit for --help and the like."""
        name = _STORED_AS.get(option.field, option.field)
        if name in _TEXTS:
            from shim.core.options.help import text_for

            raise PrintAndExit(text_for(self.command, name, self.context.grammar))
        if option.kind == "autocomplete":
            from shim.core.options.help import completions

            raise PrintAndExit(completions(self.table, text or ""))
        if option.kind == IGNORED:
            self.ignored.append(option.long)
            return
        if option.stands_for is not None:
            text = option.stands_for
        value = value_of(option, text, self.context)
        if option.kind == "level" and text is None:
            if self.sources.get(name) == ENVIRONMENT:
                return  # Slurm counts the -v first, then the variable says how much
            value += self.values.get(name, 0)
        if value is False and option.kind in ("flag", "requeue"):
            return
        if name == "mail-type" and name in self.values:
            from shim.core.options.keyword_values import more_mail

            value = more_mail(self.values[name], value)
        if name == "exclusive":
            self.shared = value
        elif name == "oversubscribe":
            self.shared = "oversubscribe"
        elif name in ("requeue", "no-requeue"):
            self.values["requeues"] = name == "requeue"
        elif name == "extra-node-info":
            self._geometry(value)
        elif name == "switches":
            value = (value[0], self.get("switch-wait") if value[1] is None else value[1])
            self.values["switch-wait"] = value[1]
        elif name in _NODE_NAMES:
            self.values.pop(_NODE_NAMES[name], None)  # the later one counts
        self.values[name] = value
        self.sources[name] = source
        self.texts[name] = "" if text is None else text

    def _geometry(self, numbers: Sequence[Optional[int]]) -> None:
        """-B says at once what three options say, each also by saying nothing of it."""
        for name, number in zip(GEOMETRY, numbers):
            if number is None:
                self.values.pop(name, None)
            else:
                self.values[name] = number

    def put_switches(self, environ: Mapping[str, str], prefix: str) -> None:
        """--switches in two variables; Slurm shows both without a name."""
        for variable in ("REQ_SWITCH", "WAIT4SWITCH"):
            if prefix + variable in environ:
                self.values[variable] = True
        wait, count = environ.get(prefix + "WAIT4SWITCH"), environ.get(prefix + "REQ_SWITCH")
        if wait is not None or count is not None:
            from shim.core.options.numeric_values import switch_count, switch_wait

            if wait is not None:
                self.values["switch-wait"] = switch_wait(wait)
            if count is not None:
                self.values["switches"] = (switch_count(count), None)
        if "switches" in self.values:
            self.values["switches"] = (self.values["switches"][0], self.get("switch-wait"))

    def put_all(self, found: Sequence[Tuple[Option, Optional[str]]], source: str) -> None:
        """Reads options in order."""
        for option, text in found:
            self.put(option, text, source)


def read_line(
    command: str, argv: Sequence[str], grammar: Optional[Grammar] = None
) -> Tuple[List[Tuple[Option, Optional[str]]], List[str]]:
    """The options of a command line, not read yet, and the words from the first that is none."""
    return parse(command, argv, options_of(command, grammar))


def first_pass(
    command: str, argv: Sequence[str], context: Context
) -> Tuple[List[Tuple[Option, Optional[str]]], List[str]]:
    """``read_line`` as sbatch does it: every value is read as it is met, so the first mistake, or --help, is what counts."""
    found: List[Tuple[Option, Optional[str]]] = []
    words: List[str] = []
    try:
        words = parse(command, argv, options_of(command, context.grammar), found=found)[1]
    finally:
        Settings(command, context).put_all(found, COMMAND_LINE)
    return found, words


def put_directive(settings: Settings, words: Sequence[str]) -> None:
    """The options of one directive line. UsageError for a word that is no option."""
    found: List[Tuple[Option, Optional[str]]] = []
    left: List[str] = []
    try:
        left = parse(settings.command, words, settings.table, found=found)[1]
    finally:
        # Slurm reads each value as it meets it: of two mistakes on a line the first one is told.
        settings.put_all([(option, text) for option, text in found if "early" not in option.row], DIRECTIVE)
    if left:
        raise UsageError(f"error: Invalid directive found in batch script: {left[0]}")


def put_environment(settings: Settings, environ: Mapping[str, str]) -> None:
    """The options that variables set, in the table's order. srun knows the nodes of its job by one that is no option's."""
    if settings.command == "srun" and "SLURM_JOB_NODELIST" in environ:
        settings.values["SLURM_JOB_NODELIST"] = environ["SLURM_JOB_NODELIST"]
    table = settings.table
    for row in table.rows:
        if "env" in row:
            variables = table.variables(row)
            if row["name"] == "switches":
                settings.put_switches(environ, variables[0].partition("REQ_SWITCH")[0])
                continue
            for variable in variables:
                if variable in environ:
                    settings.put(table.option(row), environ[variable], ENVIRONMENT)


def put_hostfile(settings: Settings, environ: Mapping[str, str]) -> None:
    """Notes the file in SLURM_HOSTFILE, which names the node of each task where the user names none: see ``verify``."""
    if "nodelist" not in settings and "nodefile" not in settings:
        settings.hostfile = environ.get("SLURM_HOSTFILE") or None


def full_path(name: str, directory: str) -> str:
    """``name`` seen from the root; nothing is resolved."""
    return name if name.startswith("/") else f"{directory}/{name}"
