"""The blocks that -v of the query commands prints: the options as the command has read them, in Slurm's layout."""

from __future__ import annotations

from shim.commands import site_view
from shim.core.formats.lists import comma_list
from shim.core.model import states

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    from shim.commands.accounting import sacct_query
    from shim.commands.job_ids import JobId
    from shim.core.options.query_options import Values
    from shim.core.render.columns import Column

    class SqueueSelection(Protocol):
        """What is shown of ``squeue.Selection``."""

        values: Values
        said: dict[str, str]
        ids: list[JobId]
        step_ids: list[JobId]
        steps: bool
        states: tuple[str, ...]
        users: tuple[int, ...] | None
        nodes: frozenset[str]


_RULE = "-" * 29
_SCANCEL_FLAGS = ("batch", "ctld", "full", "hurry", "interactive")
_SCANCEL_TEXTS = ("account", "nodelist", "partition", "qos", "reservation", "sibling", "wckey")


def scancel(values: Values, ids: list[tuple[str, JobId]]) -> list[str]:
    """``scancel -vvv``: lines for stderr."""
    from shim.core.formats.signals import parse_signal

    user = values.get("user")
    shown = {name: _yes(name in values) for name in _SCANCEL_FLAGS}
    shown.update((name, values.get(name) or "(null)") for name in _SCANCEL_TEXTS)
    shown["job_name"] = values.get("name") or "(null)"
    if "signal" in values:
        shown["signal"] = str(parse_signal(values["signal"]))
    shown["state"] = states.state_of(values.get("state") or "") or "?"
    shown["user_id"] = str((site_view.uid_of(user) if user else None) or 0)
    shown["user_name"] = user or "(null)"
    shown["verbose"] = str(len(values["verbose"]))
    named = []
    for word, one in ids:
        indexes = one.indexes()
        tasks = [word.partition(".")[0]] if indexes is None else [f"{one.job_id}_{index}" for index in sorted(indexes)]
        named += [("job_id", name) if one.step is None else ("job_step_id", f"{name}.{one.step}") for name in tasks]
    lines = [f"{name:<15}: {shown[name]}" for name in sorted(shown)]
    return lines + [f"{f'{kind}[{number}]':<15}: {name}" for number, (kind, name) in enumerate(named)]


def sattach(values: Values, wanted: JobId) -> list[str]:
    """``sattach -vv``: lines for stderr."""
    import os
    import pwd

    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        user = "nobody"
    shown = {
        "job ID": str(wanted.job_id),
        "step ID": _STEP_NUMBERS.get(str(wanted.step), str(wanted.step).partition("+")[0]),
        "user": f"`{user}'",
        "uid": str(os.getuid()),
        "gid": str(os.getgid()),
        "verbose": str(len(values["verbose"])),
    }
    head = ["defined options for program `sattach'", "--------------- ---------------------"]
    return head + [f"{name:<15}: {value}" for name, value in shown.items()]


_STEP_NUMBERS = {"batch": "4294967291", "extern": "4294967292"}  # that Slurm has for them


def sstat(wanted: Sequence[JobId]) -> list[str]:
    """``sstat -vv``: lines for stderr; an empty one follows each, as there."""
    named = [
        f"StepId={one.job_id}.{one.step}" if one.step is not None else f"All steps for job {one.job_id}"
        for one in wanted
    ]
    return ["\n".join(("debug:  Jobs requested:", "")), *[f"debug:  \t: {name}\n" for name in named]]


def squeue(selection: SqueueSelection, format_text: str | None) -> list[str]:
    """``squeue -v``: lines for stdout; ``-vv`` has the elements of lists too. ``format_text``: -o's, None where it was not given."""
    values = selection.values
    text = {name: values.get(name) or "(null)" for name in ("licenses", "name", "partitions", "reservation", "users")}
    shown = [
        ("all", _yes(values.shows_all("partitions"))),
        ("array", _yes("array" in values)),
        ("federation", _yes("federation" in values)),
        ("format", format_text or "(null)"),
        ("iterate", values.get("iterate") or "0"),
        ("job_flag", str(int("jobs" in values))),
        ("jobs", selection.said["jobs"] or "(null)"),
        ("licenses", text["licenses"]),
        ("local", _yes("local" in values)),
        ("names", text["name"]),
        ("nodes", _hosts(selection.nodes)),
        ("partitions", text["partitions"]),
        ("priority", _yes("priority" in values)),
        ("reservation", text["reservation"]),
        ("sibling     ", _yes("sibling" in values)),
        ("sort", values.get("sort") or ("S" if "start" in values else "(null)")),
        ("start_flag", str(int("start" in values))),
        ("states", values.get("states") or ("PD" if selection.states else "(null)")),
        ("step_flag", str(int(selection.steps))),
        ("steps", selection.said["steps"] or "(null)"),
        ("users", str(selection.users[0]) if "me" in values and selection.users else text["users"]),
        ("verbose", str(len(values["verbose"]))),
    ]
    lines = [f"{name:<11} = {value}" for name, value in shown]
    if len(values["verbose"]) > 1:
        lines += _lists(selection)
    return [_RULE, *lines, _RULE, "", ""]


def _lists(selection: SqueueSelection) -> list[str]:
    known = selection.states != ("all",)
    lists: dict[str, Sequence[object]] = {
        "job_list": [_first_task(one) for one in selection.ids],
        "name_list": [name.encode(errors="surrogateescape")[0] for name in comma_list(selection.values.get("name"))],
        "licenses_list": comma_list(selection.values.get("licenses")),
        "part_list": comma_list(selection.values.get("partitions")),
        "state_list": selection.states if known else (),
        "step_list": [f"{_first_task(one)}.{one.step or 0}+0" for one in selection.step_ids],
        "user_list": selection.users or (),
    }
    return [f"{name}[{number}] = {item}" for name, items in lists.items() for number, item in enumerate(items)]


def _first_task(one: JobId) -> str:
    """A job with its task; like Slurm, task 0 for several tasks."""
    indexes = one.indexes()
    if indexes is None:
        return str(one.job_id)
    return f"{one.job_id}_{next(iter(indexes)) if len(indexes) == 1 else 0}"


def sprio(values: Values, jobs: str | None) -> list[str]:
    """``sprio -v``: lines for stdout. ``jobs``: None where they were not given, or without ids."""
    shown = {
        "format": values.get("format"),
        "job_flag": str(int("jobs" in values)),
        "jobs": jobs,
        "partition": values.get("partition"),
        "users": values.get("user"),
        "verbose": str(len(values["verbose"])),
    }
    return [_RULE, *(f"{name:<10} = {value or '(null)'}" for name, value in shown.items()), _RULE, "", ""]


# What a column of sinfo makes it ask of nodes and partitions: its flags in order, with the letters or names that set them.
_SINFO_FLAGS = (
    ("alloc_mem_flag ", "allocmem"),
    ("avail_flag     ", "a"),
    ("comment_flag   ", "comment"),
    ("cpus_flag      ", "c C"),
    ("default_time_flag", "L"),
    ("disk_flag      ", "d"),
    ("extra_flag     ", "extra"),
    ("features_flag  ", "f"),
    ("features_flag_act", "b"),
    ("groups_flag    ", "g"),
    ("gres_flag      ", "G"),
    ("gres_used_flag ", "gresused"),
    ("job_size_flag  ", "s"),
    ("max_time_flag  ", "l"),
    ("memory_flag    ", "m"),
    ("partition_flag ", "P R"),
    ("port_flag      ", "port"),
    ("priority_job_factor_flag  ", "I"),
    ("priority_tier_flag  ", "p"),
    ("reason_flag    ", "E"),
    ("reason_timestamp_flag", "H"),
    ("reason_user_flag", "u U"),
    ("reservation_flag", ""),
    ("root_flag      ", "r"),
    ("oversubscribe_flag     ", "h"),
    ("state_flag     ", "t T"),
    ("statecomplete_flag", "statecomplete"),
    ("weight_flag    ", "w"),
)


def sinfo(values: Values, shown: Sequence[Column]) -> list[str]:
    """``sinfo -v``: lines for stdout. ``shown``: the columns."""
    from shim.core.render.sinfo_fields import NAME_LETTERS

    named = {letter: name for name, letter in reversed(NAME_LETTERS.items())}  # the first of several
    nodes = values.get("nodes")
    asked = values.get("Format") or values.get("format")
    by_node = "Node" in values
    found = [
        ("dead", _yes("dead" in values)),
        ("exact", str(int("exact" in values))),
        ("filtering", _yes(bool({"dead", "nodes", "responding", "states", "list-reasons", "partition"} & set(values)))),
        ("format", asked or ",".join(_long_name(named, column) for column in shown)),
        ("iterate", values.get("iterate") or "0"),
        ("long", _yes("long" in values)),
        ("no_header", _yes("noheader" in values)),
        ("node_field", _yes(by_node)),
        ("node_format", _yes(by_node)),
        ("nodes", nodes or "n/a"),
        ("part_field", _yes(not asked and "list-reasons" not in values)),
        ("partition", values.get("partition") or "n/a"),
        ("responding", _yes("responding" in values)),
        ("states", values.get("states") or ("down" if "list-reasons" in values else "(null)")),
        ("sort", values.get("sort") or "(null)"),
        ("summarize", _yes("summarize" in values)),
        ("verbose", str(len(values["verbose"]))),
    ]
    of_their_own = {name for _, name in _SINFO_FLAGS}
    keys = {one.key if one.key in of_their_own else NAME_LETTERS.get(one.key, one.key) for one in shown}
    flags = [f"all_flag        = {_yes(values.shows_all('partition'))}"]
    for name, letters in _SINFO_FLAGS:
        text = _yes(not keys.isdisjoint(letters.split()))
        flags.append(f"{name} ={text}" if name == "default_time_flag" else f"{name} = {text}")
    return [_RULE, *(f"{name:<11} = {value}" for name, value in found), _RULE, *flags, _RULE, ""]


def sacct(selection: sacct_query.Selection) -> list[str]:
    """``sacct -v``: lines for stderr."""
    import time

    values = selection.values
    begin, end = ("Epoch 0" if not at else time.ctime(at) for at in (selection.since, selection.until))
    when = f"in the time window from {begin} to {end}" if begin != end else f"at the time instant {end}"
    lines = [f"Jobs {','.join(selection.states) or 'Eligible'} {when}"]
    if len(values["verbose"]) > 1:
        fields = "".join(f"{text}," for text in values.each("format"))
        lines += [
            "debug:  Options selected:",
            *(
                f"\0\t{name}={'yes' if option in values else 'no'}"
                for name, option in (("opt_completion", "completion"), ("opt_dup", "duplicates"))
            ),
            f"\0\topt_field_list={fields or '(null)'}",
            "\0\topt_help=0",
            f"\0\topt_no_steps={'yes' if 'allocations' in values else 'no'}",
            f"\0\topt_whole_hetjob={values.get('whole-hetjob') or '(null)'}",
        ]
    return lines


def _long_name(names: dict[str, str], column: Column) -> str:
    width = {"N": 0, "P": 9}.get(column.key, column.width)  # these widths follow the names
    return f"{names[column.key]}:{'.' if column.right else ''}{width}{column.suffix}"


def _hosts(names: frozenset[str]) -> str:
    from shim.core.formats import hostlist

    return hostlist.fold_sorted(names) if names else ""


def _yes(value: bool) -> str:
    return "true" if value else "false"
