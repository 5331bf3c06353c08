"""Every value that an option can have survives being printed: what is shown of it reads back as the same value.

The printers are those that users see: the block of ``-v``, the lines of scontrol, the columns of squeue.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shim.core.formats import signals, tres
from shim.core.options import keyword_values
from shim.core.options.getopt import FLAG, OPTIONAL, Option
from shim.core.options.grammar import NEW, Grammar
from shim.core.options.sources import COMMAND_LINE, GEOMETRY, Reading, Settings
from shim.core.options.submit_options import options_of
from shim.core.options.values import Context, value_of
from shim.core.options.verbose import defined_options
from shim.core.placement import features
from shim.core.render.job_fields import LETTERS
from shim.core.render.scontrol_job import job_record
from shim.core.render.view import View
from tests import reference

VIEW = View(reference.NOW, reference.cluster)
CONTEXTS = [
    Context(reference.NOW, 0, str, grammar) for grammar in (None, Grammar(release=NEW, pyxis=True))
]  # user 0: all options
# Options that Slurm shows in a word that it does not read, or not at all: measured, tests/core/options/test_verbose.py.
ONE_WAY = {"autocomplete", "bell", "help", "no-bell", "send-libs", "slurmd-debug", "usage", "version"}
OPTIONS: dict[str, list[tuple[Context, str, Option]]] = {}
for _context in CONTEXTS:
    for _command in ("sbatch", "srun", "salloc"):
        for _option in options_of(_command, _context.grammar):
            if _option.long not in ONE_WAY:
                OPTIONS.setdefault(_option.kind, []).append((_context, _command, _option))


def listed(*known: str) -> st.SearchStrategy[str]:
    """Some of the words, in any order."""
    return st.lists(st.sampled_from(known), min_size=1, unique=True).map(",".join)


def numbers(least: int, most: int = 2**31 - 1) -> st.SearchStrategy[str]:
    return st.integers(least, most).map(str)


NAMES = st.text("abcXYZ019._", min_size=1, max_size=6)
LINES = st.text(st.characters(blacklist_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1, max_size=12)
CLOCKS = st.builds("{}:{:02d}:{:02d}".format, st.integers(0, 30), st.integers(0, 59), st.integers(0, 59))
TIMES = CLOCKS | st.builds("{}-{}".format, st.integers(0, 300), CLOCKS) | numbers(1, 500_000)
LIMITS = TIMES.filter(lambda text: text.strip("0:-")) | st.sampled_from(["UNLIMITED", "-1", "0"])
INSTANTS = (
    st.builds("now+{}{}".format, st.integers(1, 99), st.sampled_from(["", "minutes", "hours", "days", "weeks"]))
    | st.builds("20{}-{:02d}-{:02d}".format, st.integers(30, 37), st.integers(1, 12), st.integers(1, 28))
    | st.sampled_from(["tomorrow", "noon", "teatime", "16:30", "2031-02-03T04:05:06", "01/02/33"])
)
SIGNALS = st.sampled_from(["TERM", "sigusr1", "Int", "9", "64"])
SIGNALLED = st.builds("{}{}".format, SIGNALS, st.just("") | numbers(0, 65535).map("@{}".format))
NODES = numbers(0, 5000) | st.sampled_from(["1k", "2K", "1m", "-7", "3-0"]) | st.builds(
    lambda least, more: f"{least}-{least + more}", st.integers(0, 5000), st.integers(0, 500)
)  # fmt: skip
SIZES = st.integers(1, 10**6)
GPUS = st.sampled_from(["2", "a100", "a100:2", "v100:1,a100:3", "0", "1k"])
FREQUENCY = st.sampled_from(["low", "MEDIUM", "highm1", "High"])
ALLOWED = st.sampled_from(["OnDemand", "performance", "USERSPACE"])
MAPS = st.sampled_from(["map_mem:0,1", "MAP_MEM:1*2", "mask_mem:0x3,0xc", "mask_mem=0ff"])

TEXTS: dict[str, st.SearchStrategy[str | None]] = {
    "accel-bind": st.text("gnvGNVm", min_size=1, max_size=4).filter(lambda text: text.strip("m")),
    "acctg-freq": numbers(0, 999) | st.builds("{}={}".format, st.sampled_from(["task", "energy"]), st.integers(0, 99)),
    "all": st.none() | st.sampled_from(["NONE", "CORE,RLIMIT_NOFILE"]),
    "binary": numbers(0, 1),
    "boot-delay": TIMES,
    "compress": st.none() | st.sampled_from(["lz4", "LZ4", "none", "zstd"]),
    "count": numbers(1),
    "threads": numbers(1),
    "cpu-bind": listed("quiet", "verbose") | st.sampled_from(["sockets", "verbose,cores", "q,threads", "ldoms"]),
    "cpu-freq": FREQUENCY
    | ALLOWED
    | numbers(1, 10**7)
    | st.builds(
        "{}-High{}".format, FREQUENCY.filter(lambda word: word != "High"), st.just("") | ALLOWED.map(":{}".format)
    ),
    "distribution": st.sampled_from(["plane=4", "arbitrary", "pack", "nopack", "*:*:*"])
    | st.builds(
        "{}{}{}".format,
        st.sampled_from(["block", "Cyclic", "*"]),
        st.sampled_from(["", ":block", ":cyclic", ":fcyclic:*", ":*:block"]),
        st.sampled_from(["", ",pack", ",NoPack", ","]),
    ),
    "exclusive": st.none() | st.sampled_from(["user", "MCS", "exclusive"]),
    "file": st.sampled_from(["none", "NONE", "/a/%j", "out.%4t", "sub/%x-%A_%a", "a%%b", "\\%j"]) | LINES,
    "flag": st.none(),
    "geometry": st.lists(numbers(1, 9) | st.sampled_from(["2-4", "1k"]), min_size=1, max_size=3).map(":".join),
    "gpu-bind": st.sampled_from(["closest", "verbose,none", "single:2", "map_gpu:0,1", "mask_gpu:0x3*2", "per_task:1"]),
    "gpu-freq": st.sampled_from(["low", "medium,memory=high", "1200,verbose", "memory=900"]),
    "gres": st.lists(st.sampled_from(["gpu", "gres:gpu:2", "gpu:a100", "shard:a:3", "x:2K"]), min_size=1).map(",".join)
    | st.sampled_from(["none", "None"]),
    "gres-flags": st.sampled_from(["disable-binding", "Enforce-Binding"]),
    "gres-flags-new": listed("allow-task-sharing", "DISABLE-binding", "one-task-per-sharing"),
    "hosts": st.sampled_from(["n1", "n[1-3,7]", "n1,m[01-10]"]),
    "level": st.none(),
    "mail": listed("NONE")
    | listed("ALL", "begin", "END", *(name for name, _ in keyword_values.MAIL_TYPES), "nosuch,FAIL"),
    "mem-bind": listed("v", "prefer", "sort", "none", "rank", "local") | MAPS | MAPS.map("quiet,p,{}".format),
    "memory": st.builds("{}{}".format, SIZES, st.sampled_from(["", "K", "M", "mb", "g", "GB"]))
    | numbers(1, 999).map("{}T".format),
    "minutes": LIMITS,
    "mpi": st.sampled_from(["none", "pmi2", "openmpi", "pmix_v4"]),
    "natural": numbers(0),
    "nice": st.none() | numbers(-2147483645, 2147483645),
    "no-kill": st.none() | st.just("SET"),
    "nodes": NODES,
    "open-mode": st.sampled_from(["append", "truncate", "a", "T"]),
    "path": st.sampled_from(["/", "/a b", "sub", "./sub"]) | LINES,
    "ports": st.none() | numbers(0),
    "power": st.sampled_from(["level", "LEVEL,x"]),
    "priority": numbers(0, 0xFFFFFFFC),
    "profile": listed("Task", "energy", "LUSTRE", "network") | st.sampled_from(["all", "none"]),
    "requeue": st.none(),
    "root": NAMES,
    "seconds": numbers(0),
    "set": st.none() | st.sampled_from(["0", "x"]),
    "signal": st.builds("{}{}".format, st.sampled_from(["", "B:", "R:", "BR:", "b"]), SIGNALLED),
    "signal-name": st.none() | SIGNALS,
    "signals": listed("TERM", "usr1", "10", "SIGHUP"),
    "step-signal": st.builds("{}{}".format, st.sampled_from(["", "R:"]), SIGNALLED),
    "switch": st.none() | numbers(0),
    "switches": st.builds("{}{}".format, numbers(1), st.just("") | LIMITS.map("@{}".format) | st.just("@x")),
    "text": LINES,
    **dict.fromkeys(("bcast", "hint", "node-file"), LINES),
    "tres-per-task": listed("cpu=2", "gres/gpu=1", "gres:gpu:a100:3"),
    "user-env": st.builds("{}{}".format, st.integers(0, 99), st.sampled_from(["", "l", "S"])),
    "when": INSTANTS,
    "yes-no": st.sampled_from(["yes", "NO", "Yes"]),
}


def read(context: Context, command: str, option: Option, text: str | None) -> Settings:
    made = Reading(command, context)
    made.put(option, text, COMMAND_LINE)
    return made.settings()


def meaning(made: Settings, kind: str) -> Any:
    """All that was set. What Slurm shows otherwise and means all the same is made equal."""
    found = dict(made.values)
    for name in found:
        if kind in ("signal", "step-signal"):  # kept as the user wrote it
            found[name] = signals.parse_signal_request(found[name])
        elif kind == "gres":
            found[name] = tres.normalize_gres(found[name])
        elif kind in ("file", "path") and not found[name].startswith("/"):
            found[name] = f"/w/{found[name]}"
    if kind == "switches" and found["switch-wait"] == -1:  # no limit is shown as nothing
        found.update({"switch-wait": None, "switches": (found["switches"][0], None)})
    return found, made.shared


def test_there_are_texts_of_every_kind() -> None:
    assert set(TEXTS) == set(OPTIONS)


@pytest.mark.parametrize("kind", sorted(TEXTS))
@settings(max_examples=40)
@given(data=st.data())
def test_what_v_shows_of_a_value_is_read_as_that_value(kind: str, data: st.DataObject) -> None:
    context, command, option = data.draw(st.sampled_from(OPTIONS[kind]))
    text = None if option.arity == FLAG else data.draw(TEXTS[kind])
    given_as = read(context, command, option, text)
    lines = [line.split(": ", 1) for line in defined_options(given_as, "/w")[2:-2]]
    ((_, shown),) = lines
    is_word = option.arity == FLAG or (option.arity == OPTIONAL and shown in ("set", "requeue"))
    again = read(context, command, option, None if is_word else shown)
    assert meaning(again, kind) == meaning(given_as, kind)


def record(**fields: Any) -> str:
    """What scontrol shows of a job that asks for this."""
    return job_record(reference.job(7, request=reference.request(**fields)), VIEW)


def found(pattern: str, text: str) -> str:
    """The part of the pattern in parentheses; fails where it is not in the text exactly once."""
    (one,) = re.findall(pattern, text, re.MULTILINE)
    return str(one)


PLACES = st.sampled_from(["", "*"]) | numbers(1, 9) | st.sampled_from(["2-4", "1k", "1k-2k"])


@given(st.lists(PLACES, min_size=1, max_size=3).map(":".join).filter(lambda text: text.strip(":")))
def test_what_scontrol_shows_of_a_geometry_is_read_as_that_geometry(text: str) -> None:
    (option,) = [option for _, _, option in OPTIONS["geometry"][:1]]
    wanted = read(CONTEXTS[0], "sbatch", option, text)
    shown = record(**{name.replace("-", "_"): wanted.get(name) for name in GEOMETRY})
    parts = [found(r"Socks/Node=(\S+)", shown), *found(r"ReqB:S:C:T=0:0:(\S+)", shown).split(":")]
    assert read(CONTEXTS[0], "sbatch", option, ":".join(parts)).values == wanted.values


@given(st.lists(st.sampled_from([*"ab&|()[]*23 ,", "a&b", "[a|b]", "(b|a)&"]), max_size=7).map("".join), st.booleans())
def test_what_scontrol_and_squeue_show_of_a_constraint_is_read_as_that_constraint(text: str, quoted: bool) -> None:
    text = f'"{text}"' if quoted else text or "a"
    try:
        wanted = features.parse(text)
    except features.FeatureError:
        return
    lines = record(constraint=text, prefer=text)
    assert features.parse(found("^ *Features=(.*) DelayBoot=", lines)) == wanted
    assert features.parse(found("^ *Prefer=(.*)$", lines)) == wanted
    job = reference.job(7, request=reference.request(constraint=text))
    assert features.parse(LETTERS["f"][1](job, VIEW)) == wanted


@given(TEXTS["gres"], GPUS)
def test_what_squeue_shows_of_gres_is_read_as_those(gres: str, gpus: str) -> None:
    assert tres.normalize_gres(tres.show_gres_field(tres.normalize_gres(gres)) or "none") == tres.normalize_gres(gres)
    shown = tres.parse_gres(tres.show_gpus_field(gpus))
    assert shown == tuple(("gpu", kind, count) for kind, count in tres.parse_gpus(gpus))


@given(st.lists(st.sampled_from(["matlab", "ansys:2", "b:0", "matlab:3"]), min_size=1), st.sampled_from(",;"))
def test_what_scontrol_shows_of_licences_is_read_as_those(wanted: list[str], between: str) -> None:
    text = between.join(wanted)
    assert tres.parse_licenses(found(r"Licenses=(\S+)", record(licenses=text))) == tres.parse_licenses(text)


@given(numbers(1, 99), st.integers(0, 5))
def test_what_scontrol_shows_of_switches_is_read_as_those(count: str, wait: int) -> None:
    """No more than five minutes: Slurm lets nobody wait longer."""
    shown = found(r"Switches=(\S+)", record(switches=f"{count}@{wait}"))
    (option,) = [option for _, _, option in OPTIONS["switches"][:1]]
    assert value_of(option, shown, CONTEXTS[0]) == (int(count), 60 * wait)
