"""The page: a snapshot, what the person has chosen, and a size in; lines of text with styles out. Nothing is asked and nothing is written here."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Sequence

from shim.admin.top import listing
from shim.admin.top.cells import fitted, wide
from shim.admin.top.keys import HINTS, KEYS
from shim.admin.top.snapshot import Cells, ClusterLine, Entry, NodeLine, Snapshot
from shim.admin.top.state import FOLLOW, HELP, State, Told, at
from shim.core.explanation import NEVER
from shim.core.model import states
from shim.core.script import printable

Part = tuple[str, str]  # text and its style (draw.py)
Line = list[Part]
Size = tuple[int, int]  # columns and rows

LEAST: Size = (40, 8)
HISTORY = 3600.0  # seconds that the curve shows
_RAMP = " ▁▂▃▄▅▆▇█"
_MOST_CLUSTERS = 4  # lines of them
_GOOD, _BUSY, _BAD, _DIM, _TITLE, _CHOSEN = "green", "yellow", "red", "dim", "bold", "reverse"
_NODE_HEAD = f"{'STATE':<5} {'CPUS':>7} {'MEMORY':>9} {'GPUS':>4}"  # after the node's name
_NODE, _NODE_OF = 9, 15  # columns of that: alone, and with the name of one of several clusters
# Of a job: squeue's letter, header, width at most, whether it stands right, the width of the page from which on it is there.
_COLUMNS = (
    ("i", "JOBID", 18, True, 0),
    ("P", "PARTITION", 9, True, 70),
    ("j", "NAME", 16, False, 0),
    ("u", "USER", 8, False, 50),
    ("t", "ST", 2, True, 0),
    ("M", "TIME", 10, True, 0),
    ("L", "TIME_LEFT", 10, True, 110),
    ("C", "CPUS", 5, True, 120),
    ("D", "NODES", 5, True, 60),
    ("S", "START_TIME", 19, False, 140),
    ("R", "NODELIST(REASON)", 16, False, 0),
)
_GROWS = {"j": 1, "R": 2}  # who gets what is left of a line, in which parts
_STATE_STYLES = {"R": _GOOD, "CG": _BUSY, "CF": _BUSY, "S": _BUSY, "CD": _DIM, "CA": _DIM, "PD": ""}


def page(
    snapshot: Snapshot, listed: Sequence[Entry], chosen: Entry | None, state: State, told: Told, size: Size
) -> list[Line]:
    """The lines of the page, as many as the size has rows, each as wide as it or less.

    ``listed``: ``state.listed`` of the snapshot. ``chosen``: the selected job, which may have left the list since.
    """
    width, height = size
    if width < LEAST[0] or height < LEAST[1]:
        return _filled([[(f"shim top needs {LEAST[0]}x{LEAST[1]}", "")]], size)
    if state.mode == HELP:
        return _filled(_help(), size, _foot(state, snapshot, width))
    if state.mode == FOLLOW:
        return _filled(_output(chosen, state, told, size), size, _foot(state, snapshot, width))
    head = [_title(snapshot, state, listed, width), *_clusters(snapshot, width, height)]
    detail = _detail(chosen, told, snapshot.now, width, rows_of_detail(height))
    rest = height - len(head) - len(detail) - 2  # the line of headers of the jobs, and the foot
    nodes = _nodes(snapshot.nodes, width, min(rest - 4, max(2, height // 4))) if state.nodes else []
    jobs = _jobs(snapshot, listed, state, width, rest - len(nodes))
    return (
        _filled([*head, *nodes, *jobs], (width, height - len(detail) - 1), None)
        + detail
        + [_foot(state, snapshot, width)]
    )


def rows_of_detail(height: int) -> int:
    """How many lines the selected job gets, its title among them."""
    return 0 if height < 14 else max(4, height // 4 - 1)


def rows_of_output(height: int) -> int:
    """How many lines of output are shown at once where it is followed."""
    return max(1, height - 2)


def _filled(lines: list[Line], size: Size, foot: Line | None = None) -> list[Line]:
    """The lines cut to their width, and as many as there are rows; ``foot`` is the last of them."""
    width, height = size
    room = height - (foot is not None)
    found = [_cut(line, width) for line in lines[:room]]
    found += [[] for _ in range(room - len(found))]
    return found if foot is None else [*found, foot]


def _cut(line: Line, width: int) -> Line:
    found = []
    for text, style in line:
        part = text if wide(text) <= width else fitted(text, width)
        width -= wide(part)
        found.append((part, style))
    return found


# Clusters and nodes


def _title(snapshot: Snapshot, state: State, listed: Sequence[Entry], width: int) -> Line:
    run, wait = listing.counted(snapshot.entries)
    chosen = [state.filter] if state.filter != listing.LIVE else []
    chosen += [f"user {state.user}"] if state.user else []
    chosen += [f"/{state.text}"] if state.text else []
    chosen += [f"by {state.order}" + (" reversed" if state.reverse else "")]
    text = f" {run} running  {wait} pending  "
    rest = f"{len(listed)} shown: {', '.join(map(printable, chosen))}"
    clock = time.strftime("%H:%M:%S", time.localtime(snapshot.now))
    room = width - len("shim top") - len(text) - len(clock) - 1
    return [("shim top", _TITLE), (text, ""), (fitted(rest, room) + " ", _DIM), (clock, "")]


def _clusters(snapshot: Snapshot, width: int, height: int) -> list[Line]:
    """A line for each cluster, and the curve of all of them; on a low page the curve is left out."""
    lines = [_cluster(line, width) for line in snapshot.clusters[:_MOST_CLUSTERS]]
    if len(snapshot.clusters) > _MOST_CLUSTERS:
        lines[-1] = [(f"and {len(snapshot.clusters) - _MOST_CLUSTERS + 1} more clusters", _DIM)]
    if height >= 18:
        lines += _curves(snapshot, width)
    return lines + [[(f"! {printable(trouble)}", _BAD)] for trouble in snapshot.troubles[:2]]


def _cluster(line: ClusterLine, width: int) -> Line:
    name = line.name if line.backend == "local" else f"{line.name} ({line.backend})"
    found: Line = [(f"{fitted(printable(name), 18)} ", _TITLE)]
    found += [("cpus ", _DIM), *_bar(line.cpus_used, line.cpus, 10), (f" {line.cpus_used}/{line.cpus}", "")]
    if width >= 60:
        found += [
            ("  mem ", _DIM),
            *_bar(line.memory_used, line.memory, 10),
            (f" {_of(line.memory_used, line.memory)}", ""),
        ]
    if line.gpus:
        found += [("  gpus ", _DIM), (f"{line.gpus_used}/{line.gpus}", _load(line.gpus_used, line.gpus))]
    return found


def _bar(used: int, whole: int, width: int) -> Line:
    full = min(width, round(width * used / whole)) if whole else 0
    if used and not full:
        full = 1
    return [("#" * full, _load(used, whole)), ("." * (width - full), _DIM)]


def _load(used: int, whole: int) -> str:
    return "" if not used else _BUSY if used >= whole else _GOOD


def _curves(snapshot: Snapshot, width: int) -> list[Line]:
    """What was in use in the last hour: CPUs, and GPUs where there are any."""
    columns = max(10, width - 30)
    lines = []
    for what, whole in (
        ("cpus", sum(one.cpus for one in _ours(snapshot))),
        ("gpus", sum(one.gpus for one in _ours(snapshot))),
    ):
        if whole and (what == "cpus" or any(span.gpus for span in snapshot.spans)):
            values = listing.curve(snapshot.spans, snapshot.now, HISTORY, columns, gpus=what == "gpus")
            marks = "".join(_mark(value / whole) for value in values)
            line: Line = [(f"{what}, last hour ", _DIM), (marks, _GOOD), (f" peak {max(values):.1f}", _DIM)]
            lines.append(line)
    return lines


def _ours(snapshot: Snapshot) -> list[ClusterLine]:
    """The clusters whose past is known here."""
    return [line for line in snapshot.clusters if line.backend != "slurm"]


def _mark(share: float) -> str:
    steps = len(_RAMP) - 1
    return _RAMP[0 if share <= 0 else max(1, min(steps, round(share * steps)))]


def _nodes(nodes: Sequence[NodeLine], width: int, rows: int) -> list[Line]:
    """As many nodes as there is room for, side by side, a line of headers above them: those in use first where not all have room."""
    several = len({node.cluster for node in nodes}) > 1
    name = _NODE_OF if several else _NODE
    head = f"{'NODE':<{name}} {_NODE_HEAD}"
    across = max(1, (width + 2) // (len(head) + 2))
    if rows < 2 or not nodes:
        return []
    room = (rows - 1) * across
    shown = list(nodes)
    if len(nodes) > room:
        shown = sorted(nodes, key=lambda node: (not node.cpus_used, node.state == "idle"))[: room - 1]
    places: list[Line] = [_node(node, name, several) for node in shown]
    if len(nodes) > len(shown):
        idle = sum(node.state.rstrip("*~") == "idle" for node in nodes) - sum(
            node.state.rstrip("*~") == "idle" for node in shown
        )
        places.append([(f"and {len(nodes) - len(shown)} more, {idle} of them idle", _DIM)])
    lines = -(-len(places) // across)
    found: list[Line] = [[(("  ".join([head] * min(across, -(-len(places) // lines)))).ljust(width), _DIM)]]
    for number in range(lines):
        line: Line = []
        for place in places[number::lines]:
            line += [*place, (" " * (len(head) - sum(wide(text) for text, _ in place) + 2), "")]
        found.append(line)
    return found


def _node(node: NodeLine, width: int, several: bool) -> Line:
    name = f"{node.cluster}:{node.name}" if several else node.name
    style = _BAD if node.state.startswith(("down", "drain", "drng", "fail")) else _load(node.cpus_used, node.cpus)
    gpus = f"{node.gpus_used}/{node.gpus}" if node.gpus else "-"
    return [
        (f"{fitted(printable(name), width)} ", ""),
        (f"{fitted(node.state, 5)} ", style),
        (f"{f'{node.cpus_used}/{node.cpus}':>7} {_of(node.memory_used, node.memory):>9} {gpus:>4}", ""),
    ]


def _of(used: int, whole: int) -> str:
    """Memory in MiB of memory: ``1.5/16G``."""
    unit, name = (1024, "G") if whole >= 4096 else (1, "M")
    if whole >= 4 * 1024 * 1024:
        unit, name = 1024 * 1024, "T"
    amount = used / unit
    return (
        f"{amount:.1f}/{whole / unit:.0f}{name}"
        if 0 < amount < 10 and unit > 1
        else f"{amount:.0f}/{whole / unit:.0f}{name}"
    )


# Jobs


def _jobs(snapshot: Snapshot, listed: Sequence[Entry], state: State, width: int, rows: int) -> list[Line]:
    """The line of headers, and the part of the list in which the selected job is."""
    several = len(snapshot.clusters) > 1
    chosen = at(listed, state.selected)
    first = max(0, min(chosen - rows // 2, len(listed) - rows))
    shown = [(entry, entry.cells(snapshot.now)) for entry in listed[first : first + rows]]
    columns = _columns(width, several, [cells for _, cells in shown])
    header = " ".join(_placed(head, size, right) for _, head, size, right in columns)
    found: list[Line] = [[(fitted(header, width), _DIM)]]
    for number, (entry, cells) in enumerate(shown, first):
        parts: Line = []
        for letter, _, size, right in columns:
            text = entry.cluster if letter == "cluster" else cells[letter]
            style = _STATE_STYLES.get(text, _BAD) if letter == "t" else ""
            parts += [(_placed(printable(text), size, right), style), (" ", "")]
        parts = _cut(parts, width)
        if number == chosen:
            parts = [(fitted("".join(text for text, _ in parts), width), _CHOSEN)]
        found.append(parts)
    if not shown:
        found.append([(_nothing(snapshot, state), _DIM)])
    return found


def _nothing(snapshot: Snapshot, state: State) -> str:
    if state.user or state.text or state.filter != listing.LIVE:
        return f"No job fits ({len(snapshot.entries)} in all): Esc shows all."
    return "No jobs. sbatch, srun and salloc bring some."


def _columns(width: int, several: bool, shown: Sequence[Cells]) -> list[tuple[str, str, int, bool]]:
    """The columns that a page of that width has: letter, header, width, whether right. Each as wide as what is in it, as far as it may be."""
    found = [("cluster", "CLUSTER", 8, False)] if several and width >= 70 else []
    for letter, head, most, right, least in _COLUMNS:
        if width >= least:
            needed = max([len(head), *(wide(printable(cells[letter])) for cells in shown)])
            found.append((letter, head, min(most, needed), right))
    left = width - sum(size for _, _, size, _ in found) - len(found) + 1
    if left < 0:  # names give way to reasons
        return [
            (letter, head, max(8, size + left) if letter == "j" else size, right) for letter, head, size, right in found
        ]
    parts = sum(_GROWS.values())
    return [(letter, head, size + left * _GROWS.get(letter, 0) // parts, right) for letter, head, size, right in found]


def _placed(text: str, width: int, right: bool) -> str:
    missing = width - wide(text)
    if missing < 0:
        return fitted(text, width - 1) + "~"
    return " " * missing + text if right else text + " " * missing


# The selected job


def _detail(entry: Entry | None, told: Told, now: float, width: int, rows: int) -> list[Line]:
    """What there is to know of the selected job: why it waits or ended, what it uses, its last lines."""
    if not rows:
        return []
    if entry is None:
        return [[("-" * width, _DIM)], *([] for _ in range(rows - 1))]
    cells = entry.cells(now)
    waits = entry.state == states.PENDING and now < entry.start < now + NEVER
    head = f"-- {cells['i']} {entry.name}{', expected to start ' + cells['S'] if waits else ''} "
    found: list[Line] = [[(fitted(printable(head), min(wide(printable(head)), width)), _TITLE)]]
    found[0].append(("-" * (width - wide(found[0][0][0])), _DIM))
    said = [*told.reasons, *([told.uses] if told.uses else [])]
    if not said and entry.job() is None:
        said = [f"{cells['R']} on {entry.cluster}, which is asked every few seconds."]
    lines = [part for text in said for part in textwrap.wrap(printable(text), width)]
    most = rows - 1 if entry.state == states.PENDING or not told.output else max(1, (rows - 1) // 2)
    found += [[(line, "")] for line in lines[:most]]
    room = rows - len(found)
    if entry.state != states.PENDING and told.path and room > 0:
        if told.output:
            found += [[(_shown(line), _DIM)] for line in told.output[-room:]]
        else:
            found.append([(f"{told.path} {'is not there' if told.output is None else 'is empty'}.", _DIM)])
    return _filled(found, (width, rows))


def _output(entry: Entry | None, state: State, told: Told, size: Size) -> list[Line]:
    width, height = size
    if entry is None:
        return [[("There is no job.", _DIM)]]
    title = f"Output of {entry.cells(0)['i']} {entry.name}: {told.path or '(none)'}"
    lines = told.output or ()
    rows = rows_of_output(height)
    end = max(len(lines) - state.back, min(rows, len(lines)))
    found: list[Line] = [[(fitted(printable(title), width), _CHOSEN)]]
    if told.path and told.output is None:
        found.append([("It is not there (yet).", _DIM)])
    return [*found, *([(_shown(line), "")] for line in lines[max(0, end - rows) : end])]


def _shown(line: str) -> str:
    """A line of output as a terminal may be given it."""
    return printable(line.expandtabs())


# The last line, and help


def _foot(state: State, snapshot: Snapshot, width: int) -> Line:
    if state.prompt:
        return _cut(
            [
                (f"{state.prompt}: {printable(state.typed)}", _TITLE),
                ("_", _TITLE),
                ("   Enter: so be it; Esc: as before", _DIM),
            ],
            width,
        )
    if state.asked:
        return _cut([(f"{printable(state.asked)}? y/n", _TITLE)], width)
    if state.message:
        return _cut([(printable(state.message), _BAD if state.failed else _TITLE)], width)
    hint = HINTS.get(state.mode, "")
    return _cut([(hint, _DIM)], width)


def _help() -> list[Line]:
    found: list[Line] = [[("Keys of shim top", _TITLE)], []]
    for keys, what in KEYS:
        found.append([(f"  {keys:<16}", _TITLE), (what, "")])
    return found
