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
    from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

    from shim.core.options.getopt import Option, Row, Table
    from shim.core.options.grammar import Grammar
    from shim.core.options.values import Context

DIRECTIVE = "directive"
ENVIRONMENT = "environment"
COMMAND_LINE = "command line"

_TEXTS = ("help", "usage", "version")
_OPPOSITES = {
    "container-writable": "container-readonly",
    **{f"container-{what}": f"no-container-{what}" for what in ("entrypoint", "mount-home", "remap-root")},
}
_OPPOSITES.update({other: name for name, other in _OPPOSITES.items()})
_STORED_AS = {"cluster": "clusters"}
GEOMETRY = ("sockets-per-node", "cores-per-socket", "threads-per-core")
_proxy = type(type.__dict__)  # types.MappingProxyType, without that module
# What variables say of --switches, which each component starts without.
_OF_SWITCHES = ("REQ_SWITCH", "WAIT4SWITCH", "switch-wait")


def _frozen(mapping: Mapping[str, Any]) -> Mapping[str, Any]:
    """The mapping for good: a copy of a dictionary, which nobody can change."""
    return _proxy(dict(mapping)) if isinstance(mapping, dict) else mapping


class Settings:
    """What one invocation asks for, as it was read: values by option name (``get``, ``in``), and where each comes from. Immutable.

    ``ntasks``, ``mem-per-cpu`` …: the names of the rows; another spelling is stored under the usual one. ``texts`` has
    each value as it was written. ``exclusive`` and ``oversubscribe`` are one setting in two words, kept in ``shared``. ``ignored``:
    the plugins' options that were given and have no effect at this site. ``hostfile``: the file of SLURM_HOSTFILE, if it counts.
    """

    __slots__ = ("command", "context", "hostfile", "ignored", "shared", "sources", "texts", "values")

    command: str
    context: Context
    values: Mapping[str, Any]
    sources: Mapping[str, str]
    texts: Mapping[str, str]
    shared: Optional[str]
    ignored: Sequence[str]
    hostfile: Optional[str]

    def __init__(self, before: Settings, values: Mapping[str, Any], sources: Mapping[str, str]) -> None:
        """What ``before`` asks for, with these values and sources."""
        for name, value in (
            ("command", before.command),
            ("context", before.context),
            ("values", _frozen(values)),
            ("sources", _frozen(sources)),
            ("texts", _frozen(before.texts)),
            ("shared", before.shared),
            ("ignored", tuple(before.ignored)),
            ("hostfile", before.hostfile),
        ):
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable: {name}")

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

    def changed(self, changes: Mapping[str, Any]) -> Settings:
        """These settings with other values; nobody has given those that are new."""
        return Settings(self, {**self.values, **changes}, self.sources)

    def without(self, *names: str) -> Settings:
        """These settings, as if the options had not been given."""
        values = {name: value for name, value in self.values.items() if name not in names}
        return Settings(self, values, {name: source for name, source in self.sources.items() if name not in names})


class Reading(Settings):
    """Settings while the sources are read, one option after the other; ``settings`` are those that were read in the end.

    The component of a heterogeneous job begins with what is left of the one ``before`` it: what describes its resources starts
    anew (``Row.anew``), the rest (name, time, memory per node, output, account …) stays (measured for every option).
    """

    __slots__ = ()
    if not TYPE_CHECKING:
        __setattr__ = object.__setattr__

    values: Dict[str, Any]
    sources: Dict[str, str]
    texts: Dict[str, str]
    ignored: List[str]

    def __init__(self, command: str, context: Context, before: Optional[Settings] = None) -> None:
        self.command = command
        self.context = context
        self.values = {}
        self.sources = {}
        self.texts = {}
        self.shared = None
        self.ignored = []
        self.hostfile = None
        if before is not None:
            by_name = self.table.by_name
            for name in before.values:
                if name not in _OF_SWITCHES and "anew" not in by_name.get(name, ()):
                    self._carry(name, before)

    def _carry(self, name: str, before: Settings) -> None:
        self.values[name] = before.values[name]
        if name in before.sources:
            self.sources[name] = before.sources[name]
            self.texts[name] = before.texts[name]

    def settings(self) -> Settings:
        """What was read."""
        return Settings(self, self.values, self.sources)

    def keep_verbosity(self, before: Optional[Settings]) -> None:
        """``-v`` of one component is for all behind it; given again with the same words it does not count twice."""
        if before is not None and "verbose" in before and "verbose" not in self:
            self._carry("verbose", before)

    def drop(self, name: str) -> None:
        """Forgets the option."""
        self.values.pop(name, None)
        self.sources.pop(name, None)

    def put(self, option: Option, text: Optional[str], source: str) -> None:
        """Reads one option. ShimError with Slurm's text if the value is bad, PrintAndExit for --help and the like."""
        self._answer(option, text)
        if option.kind == IGNORED:
            self.ignored.append(option.long)
            return
        name = _STORED_AS.get(option.field, option.field)
        if option.stands_for is not None:
            text = option.stands_for
        value = value_of(option, text, self.context)
        if option.kind == "level" and text is None:
            if self.sources.get(name) == ENVIRONMENT:
                return  # Slurm counts the -v first, then the variable says how much
            value += self.values.get(name, 0)
        if value is False and option.kind in ("flag", "requeue"):
            return
        self.values[name] = _KEPT[name](self, name, value) if name in _KEPT else value
        self.sources[name] = source
        self.texts[name] = "" if text is None else text

    def _answer(self, option: Option, text: Optional[str]) -> None:
        """Raises PrintAndExit for the options that ask for a text."""
        if option.field in _TEXTS:
            from shim.core.options.help import text_for

            raise PrintAndExit(text_for(self.command, option.field, self.context.grammar))
        if option.kind == "autocomplete":
            from shim.core.options.help import completions

            raise PrintAndExit(completions(self.table, text or ""))

    def _mail(self, name: str, value: str) -> str:
        """--mail-type adds up."""
        if name not in self.values:
            return value
        from shim.core.options.keyword_values import more_mail

        return more_mail(self.values[name], value)

    def _share(self, name: str, value: Any) -> Any:
        """--exclusive and --oversubscribe: the later one counts."""
        self.shared = value if name == "exclusive" else name
        return value

    def _opposite(self, name: str, value: Any) -> Any:
        """--container-mount-home and --no-container-mount-home: the later one counts."""
        self.drop(_OPPOSITES[name])
        return value

    def _requeue(self, name: str, value: Any) -> Any:
        """--requeue and --no-requeue: the later one counts."""
        self.values["requeues"] = name == "requeue"
        return value

    def _geometry(self, name: str, numbers: Sequence[Optional[int]]) -> Any:
        """-B says at once what three options say, each also by saying nothing of it."""
        for of_geometry, number in zip(GEOMETRY, numbers):
            if number is None:
                self.values.pop(of_geometry, None)
            else:
                self.values[of_geometry] = number
        return numbers

    def _switches(self, name: str, value: Tuple[int, Optional[int]]) -> Any:
        """--switches without a time has that of before."""
        count, wait = value
        self.values["switch-wait"] = self.get("switch-wait") if wait is None else wait
        return count, self.values["switch-wait"]

    def _nodelist(self, name: str, value: str) -> str:
        """--nodelist and --nodefile: the later one counts."""
        self.values.pop("nodefile" if name == "nodelist" else "nodelist", None)
        return value

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


# Options whose value depends on what was read before, or that others depend on; what is kept of them.
_KEPT: Dict[str, Callable[[Reading, str, Any], Any]] = {
    **dict.fromkeys(_OPPOSITES, Reading._opposite),
    "exclusive": Reading._share,
    "extra-node-info": Reading._geometry,
    "mail-type": Reading._mail,
    "no-requeue": Reading._requeue,
    "nodefile": Reading._nodelist,
    "nodelist": Reading._nodelist,
    "oversubscribe": Reading._share,
    "requeue": Reading._requeue,
    "switches": Reading._switches,
}


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
        Reading(command, context).put_all(found, COMMAND_LINE)
    return found, words


def put_directive(reading: Reading, words: Sequence[str]) -> None:
    """The options of one directive line. UsageError for a word that is no option."""
    found: List[Tuple[Option, Optional[str]]] = []
    left: List[str] = []
    try:
        left = parse(reading.command, words, reading.table, found=found)[1]
    finally:
        # Slurm reads each value as it meets it: of two mistakes on a line the first one is told.
        reading.put_all([(option, text) for option, text in found if "early" not in option.row], DIRECTIVE)
    if left:
        raise UsageError(f"error: Invalid directive found in batch script: {left[0]}")


def put_environment(reading: Reading, environ: Mapping[str, str]) -> None:
    """The options that variables set, in the table's order. srun knows the nodes of its job by one that is no option's."""
    if reading.command == "srun" and "SLURM_JOB_NODELIST" in environ:
        reading.values["SLURM_JOB_NODELIST"] = environ["SLURM_JOB_NODELIST"]
    table = reading.table
    for row in table.rows:
        if "env" in row:
            variables = table.variables(row)
            if row["name"] == "switches":
                reading.put_switches(environ, variables[0].partition("REQ_SWITCH")[0])
                continue
            for variable in variables:
                if variable in environ:
                    reading.put(table.option(row), environ[variable], ENVIRONMENT)


def put_hostfile(reading: Reading, environ: Mapping[str, str]) -> None:
    """Notes the file in SLURM_HOSTFILE, which names the node of each task where the user names none: see ``validate``."""
    if "nodelist" not in reading and "nodefile" not in reading:
        reading.hostfile = environ.get("SLURM_HOSTFILE") or None


def full_path(name: str, directory: str) -> str:
    """``name`` seen from the root; nothing is resolved."""
    return name if name.startswith("/") else f"{directory}/{name}"
