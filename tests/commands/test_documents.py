"""--json and --yaml: every field of a record has the name and the type that its layout says, and YAML says what JSON says."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from shim.commands import host_stats
from shim.core.model.cluster import Partition
from shim.core.model.job import Step
from shim.core.model.request import INFINITE, JobRequest
from shim.core.model.usage import Spread, Usage
from shim.core.render.openapi.partitions import partition_record
from shim.core.render.scontrol_node import Machine
from tests import reference
from tests.commands.conftest import World
from tests.commands.test_sacct import STEPS, T, ended, queue

LAYOUTS = Path(__file__).resolve().parents[1] / "core" / "render" / "layouts"
NULL_OR_TEXT = {"null", "string"}


def spread(total: float, most: float) -> Spread:
    return Spread(
        total=total, most=most, most_task=1, most_node="n2", least=total - most, least_task=0, least_node="n1"
    )


USED = Usage(
    user=1.25,
    system=0.5,
    tasks=2,
    cpu=spread(1.75, 1),
    memory=spread(30, 20),
    virtual=spread(3000, 2000),
    pages=spread(3, 2),
    read=spread(1001, 1000),
    written=spread(7, 5),
)


def measured() -> Step:
    return Step(
        job_id=24,
        step_id="0",
        name="work",
        nodes=("n1", "n2"),
        tasks=2,
        cpus=2,
        start_time=T,
        end_time=T + 2,
        state="COMPLETED",
        usage=USED,
    )


@pytest.fixture
def past(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """Jobs of every kind; one has a step that was measured."""
    monkeypatch.setattr(os, "getuid", lambda: 0)
    still = Machine(arch="x86_64", system="Linux 6.1 #1", boot_time=T - 900, load=0.5, free_memory=7000)
    monkeypatch.setattr(host_stats, "machine", lambda cluster: still)
    world.index(queue(), {**STEPS, 24: (measured(),)})
    return world


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every object, list and value in the record, with its path."""
    if path:
        yield path, value
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from leaves(inner, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for inner in value:
            yield from leaves(inner, f"{path}[]")


def kind(value: Any) -> str:
    names = {bool: "boolean", int: "integer", float: "number", str: "string", dict: "object", list: "array"}
    return names.get(type(value), "null")


def rows(name: str) -> list[list[str]]:
    """Path, types, and the words that there are, of the layout's table."""
    return [line.split() for line in (LAYOUTS / name).read_text().splitlines() if not line.startswith("#")]


def known(name: str) -> dict[str, set[str]]:
    """Path -> types."""
    return {path: set(types.split("|")) for path, types, *_ in rows(name)}


def check(records: list[dict[str, Any]], name: str, *, absent: tuple[str, ...] = ()) -> None:
    """Every field is in the table with its type, and every field of the table is in some record, but ``absent``."""
    table = known(name)
    seen = set()
    for path, value in (leaf for one in records for leaf in leaves(one)):
        allowed = table[path]
        seen.add(path)
        assert kind(value) in (NULL_OR_TEXT if allowed == {"null"} else allowed), (path, value)
    assert [path for path in table if path not in seen and not path.startswith(absent or "-")] == []


def jobs(world: World, *argv: str) -> list[dict[str, Any]]:
    result = world.run("sacct", "--json", *argv)
    assert (result.code, result.err) == (0, "")
    found: list[dict[str, Any]] = json.loads(result.out)["jobs"]
    return found


def test_every_field_of_sacct_is_as_slurm_22_05_writes_it(past: World) -> None:
    check(jobs(past, "-S", "now-2days"), "accounting-v0.0.38.txt")


def check_order(one: dict[str, Any], name: str) -> None:
    """The names of each object stand in the order of the table."""
    for path, value in [("", one), *leaves(one)]:
        if isinstance(value, dict) and not any(word.endswith("?") for word in known(name).get(path, ())):
            prefix = f"{path}." if path else ""
            names = [inner.removeprefix(prefix) for inner in known(name) if inner.startswith(prefix)]
            assert list(value) == [inner for inner in names if inner in value], path


def test_the_names_stand_in_the_order_of_slurm(past: World) -> None:
    for one in jobs(past, "-S", "now-2days"):
        check_order(one, "accounting-v0.0.38.txt")


def test_a_job_of_accounting(past: World) -> None:
    (one,) = jobs(past, "-j", "23")
    assert (one["job_id"], one["name"], one["user"], one["group"], one["account"]) == (
        23,
        "acc1",
        "alice",
        "alice",
        "research",
    )
    assert one["state"] == {"current": "FAILED", "reason": "None"}
    assert one["exit_code"] == {"status": "SUCCESS", "return_code": 0}  # so 22.05 has it, of exit 3
    assert one["association"] == {"account": "research", "cluster": "ref", "partition": None, "user": "alice"}
    assert one["time"] == {
        "elapsed": 2,
        "eligible": int(T) - 1,
        "end": int(T) + 2,
        "start": int(T),
        "submission": int(T) - 1,
        "suspended": 0,
        "system": {"seconds": 0, "microseconds": 0},
        "limit": 10,
        "total": {"seconds": 0, "microseconds": 0},
        "user": {"seconds": 0, "microseconds": 0},
    }
    assert one["required"] == {"CPUs": 4, "memory": 1000}
    assert one["tres"]["allocated"] == [
        {"type": "cpu", "name": None, "id": 1, "count": 4},
        {"type": "mem", "name": None, "id": 2, "count": 4000},
        {"type": "node", "name": None, "id": 4, "count": 2},
        {"type": "billing", "name": None, "id": 5, "count": 4},
        {"type": "gres", "name": "gpu", "id": 1001, "count": 2},
    ]
    assert [step["step"]["id"] for step in one["steps"]] == ["batch", 0, 1]
    assert one["steps"][1]["exit_code"] == {
        "status": "SIGNALED",
        "return_code": None,
        "signal": {"signal_id": 9, "name": "Killed"},
    }
    assert one["steps"][1]["nodes"] == {"list": ["n1", "n2"], "count": 2, "range": "n[1-2]"}


def test_what_a_step_has_used(past: World) -> None:
    (one,) = jobs(past, "-j", "24.0")
    (step,) = one["steps"]
    assert step["time"]["total"] == {"seconds": 1, "microseconds": 750000}
    assert step["time"]["user"] == {"seconds": 1, "microseconds": 250000}
    assert {row["type"]: (row["count"], row["task"], row["node"]) for row in step["tres"]["requested"]["max"]} == {
        "cpu": (1000, 1, "n2"),
        "mem": (20 * 1024, 1, "n2"),
        "energy": (0, 0, "n1"),
        "fs": (1000, 1, "n2"),
        "vmem": (2000 * 1024, 1, "n2"),
        "pages": (2, 1, "n2"),
    }
    assert [row["count"] for row in step["tres"]["requested"]["min"]] == [750, 10 * 1024, 0, 1, 1000 * 1024, 1]
    assert [row["count"] for row in step["tres"]["requested"]["average"]] == [875, 15 * 1024, 0, 500, 1500 * 1024, 1]
    assert [(row["type"], row["count"]) for row in step["tres"]["consumed"]["total"]] == [("energy", 0), ("fs", 7)]


def test_steps_that_were_not_measured_and_steps_that_run(past: World) -> None:
    (one,) = jobs(past, "-j", "23")
    ended_step, running = one["steps"][1:]
    energy = [{"type": "energy", "name": None, "id": 3, "count": 0}]
    assert ended_step["tres"]["requested"] == {"max": [], "min": [], "average": energy, "total": energy}
    assert running["tres"]["requested"] == {"max": [], "min": [], "average": [], "total": []}


@pytest.mark.parametrize(
    ("argv", "ids"),
    [
        ("-X -S now-2days", [5, 23, 24, 25, 26, 29, 31, 32, 59]),
        ("-j 25_0", [29]),
        ("-j 23.0", [23]),
        ("-s R", [26]),
        ("-n -P -o jobid -j 28", [28]),
        ("-B -j 28", [28]),
    ],
)
def test_the_options_of_sacct_choose_the_jobs(past: World, argv: str, ids: list[int]) -> None:
    assert [one["job_id"] for one in jobs(past, *argv.split())] == ids


def test_the_rest_of_an_array(past: World) -> None:
    (one,) = jobs(past, "-j", "59")
    limits = {"max": {"running": {"tasks": 2}}}
    assert one["array"] == {"job_id": 59, "limits": limits, "task": "0x2AA", "task_id": None}
    assert (one["allocation_nodes"], one["nodes"], one["tres"]["allocated"]) == (0, "None assigned", [])
    assert one["time"]["limit"] is None
    (task,) = jobs(past, "-j", "25_0")
    assert (task["array"]["job_id"], task["array"]["task"], task["array"]["task_id"]) == (25, None, 0)


@pytest.mark.parametrize(
    ("spec", "left", "bits"),
    [
        ("1-14", "1-14", "0x7FFE"),
        ("1-14", "1-11", "0x0FFE"),
        ("0,30", "0,30", "0x40000001"),
        ("1-9:2%2", "9%2", "0x200"),
    ],
)
def test_the_tasks_that_wait_are_bits_of_the_whole_array(world: World, spec: str, left: str, bits: str) -> None:
    world.index([reference.job(8, array_job_id=8, array_spec=spec, array_tasks=left)])
    (one,) = jobs(world, "-j", "8")
    assert one["array"]["task"] == bits


def test_who_cancelled_a_job(past: World) -> None:
    assert jobs(past, "-j", "31")[0]["kill_request_user"] == "root"
    assert jobs(past, "-j", "24")[0]["kill_request_user"] is None


def test_a_question_without_an_answer(past: World) -> None:
    result = past.run("sacct", "--json", "-j", "99999")
    found = json.loads(result.out)
    assert (result.code, found["jobs"]) == (0, [])
    assert found["errors"] == [
        {
            "description": "Nothing found",
            "error_number": 9003,
            "error": "Nothing found with query",
            "source": "slurmdb_jobs_get",
        }
    ]
    assert found["meta"]["plugin"] == {"type": "openapi/dbv0.0.38", "name": "Slurm OpenAPI DB v0.0.38"}


def test_every_run_of_a_job_is_a_record(world: World) -> None:
    from shim.control import paths
    from shim.control.index.opening import open_store

    first = ended(7, "RUNNING", restarts=0, end_time=0)
    now = ended(7, "COMPLETED", restarts=1, start_time=T + 30, end_time=T + 31)
    store = open_store(paths.index_path())
    with store.transaction():
        kept = store.add_job(now)
        store.transition(first.replace(key=kept.key), "PENDING", T)
        store.transition(first.replace(key=kept.key, state="REQUEUED"), "RUNNING", T + 2)
        store.transition(now.replace(key=kept.key, state="PENDING"), "REQUEUED", T + 2)
    store.close()
    found = jobs(world, "-j", "7")
    assert [(one["job_id"], one["state"]["current"]) for one in found] == [(7, "REQUEUED"), (7, "COMPLETED")]


def plain(data: Any) -> Any:
    """An empty text is nothing in the YAML of squeue and sinfo."""
    if isinstance(data, dict):
        return {name: plain(value) for name, value in data.items()}
    if isinstance(data, list):
        return [plain(value) for value in data]
    return None if data == "" else data


@pytest.mark.parametrize("command", ["squeue", "sinfo", "sacct -S now-2days"])
def test_yaml_says_what_json_says(past: World, command: str) -> None:
    program, *argv = command.split()
    in_json = json.loads(past.run(program, "--json", *argv).out)
    in_yaml = yaml.safe_load(past.run(program, "--yaml", *argv).out)
    if program == "sacct":
        assert in_yaml == in_json
    assert plain(in_yaml) == plain(in_json)


@pytest.mark.parametrize("program", ["squeue", "sinfo", "sacct"])
def test_the_last_form_counts(past: World, program: str) -> None:
    assert past.run(program, "--yaml", "--json").out.startswith("{")
    assert past.run(program, "--json", "--yaml").out.startswith("%YAML 1.1\n")


def test_an_unknown_field_is_an_error_here_too(past: World) -> None:
    result = past.run("sacct", "--json", "-o", "nosuch")
    assert (result.code, result.out, result.err) == (1, "", 'sacct: error: Invalid field requested: "nosuch"\n')
    result = past.run("sacct", "--json=x")
    assert (result.code, result.err) == (1, "sacct: option '--json' doesn't allow an argument\n")


@pytest.fixture
def newer(past: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """The same jobs at a site that is like Slurm 25.11."""
    monkeypatch.setenv("SHIM_SLURM_VERSION", "25.11")
    return past


def document(world: World, command: str) -> dict[str, Any]:
    program, *argv = command.split()
    result = world.run(program, *argv)
    assert (result.code, result.err) == (0, "")
    found: dict[str, Any] = json.loads(result.out)
    return found


NUMBER = {"set": "boolean", "infinite": "boolean"}


def check_newer(records: list[dict[str, Any]], name: str, absent: tuple[str, ...] = ()) -> None:
    """Every field has the name and the type of the table, every word is one of those; no field is missing but ``absent``."""
    table, choices = known(name), {path: words for path, _, *words in rows(name) if words}
    seen = set()
    for path, value in (leaf for one in records for leaf in leaves(one)):
        parent = path.rpartition(".")[0]
        if any(word.endswith("?") for word in table.get(parent, ())):
            continue  # looked at with its parent
        seen.add(path)
        (wanted,) = table[path]
        if wanted.endswith("?"):
            assert {part: kind(inner) for part, inner in value.items() if part in NUMBER} == NUMBER
            assert kind(value["number"]) in (wanted[:-1], "integer"), (path, value)
        else:
            assert kind(value) == wanted, (path, value)
        assert path not in choices or value in choices[path], (path, value)
    assert [path for path in table if path not in seen and not path.startswith(absent or "-")] == []
    for one in records:
        check_order(one, name)


@pytest.mark.parametrize(
    ("command", "name", "table", "absent"),
    [
        ("sacct --json -S now-2days", "jobs", "accounting", ("wckey.flags[]",)),
        (
            "squeue --json -t all",
            "jobs",
            "jobs",
            ("job_size_str[]", "mail_type[]", "power.flags[]", "priority_by_partition[]"),
        ),
        ("scontrol show jobs --json", "jobs", "jobs", ("job_size_str[]", "power.flags[]", "priority_by_partition[]")),
        ("scontrol --json show nodes", "nodes", "nodes", ("cert_flags[]",)),
        (
            "scontrol show partitions --json",
            "partitions",
            "partitions",
            ("select_type[]", "maximums.oversubscribe.flags[]"),
        ),
    ],
)
def test_every_field_is_as_the_published_layout_has_it(
    newer: World, command: str, name: str, table: str, absent: tuple[str, ...]
) -> None:
    found = document(newer, command)
    absent = (*absent, "mail_type[]", "shared[]", "gres_detail[]")
    check_newer(found[name], f"{table}-v0.0.43.txt", absent)
    assert list(found) == [
        name,
        *(["last_backfill"] if table == "jobs" else []),
        *(["last_update"] if table != "accounting" else []),
        "meta",
        "errors",
        "warnings",
    ]
    meta = found["meta"]
    assert meta["plugin"]["data_parser"] == "data_parser/v0.0.43"
    assert meta["slurm"]["version"] == {"major": "25", "micro": "0", "minor": "11"}
    assert meta["command"] == command.split()


def test_words_and_numbers_of_the_newer_layout(newer: World) -> None:
    (failed,) = document(newer, "sacct --json -j 23")["jobs"]
    assert failed["state"] == {"current": ["FAILED"], "reason": "None"}
    assert failed["exit_code"] == {
        "status": ["ERROR"],
        "return_code": {"set": True, "infinite": False, "number": 3},
        "signal": {"id": {"set": False, "infinite": False, "number": 0}, "name": ""},
    }
    assert failed["steps"][1]["exit_code"]["status"] == ["SIGNALED"]
    assert failed["steps"][1]["exit_code"]["signal"]["name"] == "Killed"
    assert failed["required"] == {
        "CPUs": 4,
        "memory_per_cpu": {"set": True, "infinite": False, "number": 1000},
        "memory_per_node": {"set": False, "infinite": False, "number": 0},
    }
    assert [step["step"]["id"] for step in failed["steps"]] == ["23.batch", "23.0", "23.1"]
    (used,) = document(newer, "sacct --json -j 24")["jobs"]
    assert used["time"]["total"] == {"seconds": 1, "microseconds": 750000}
    (waits,) = document(newer, "sacct --json -j 59")["jobs"]
    assert (waits["array"]["task"], waits["array"]["task_id"]["set"]) == ("1,3,5,7,9", False)


def test_squeue_of_the_newer_release_shows_what_is_asked_for(newer: World) -> None:
    assert [one["job_id"] for one in document(newer, "squeue --json -j 26")["jobs"]] == [26]
    (one,) = document(newer, "squeue --json -t R")["jobs"]
    assert one["job_state"] == ["RUNNING"]
    assert one["time_limit"] == {"set": False, "infinite": True, "number": 0}
    assert one["job_resources"]["nodes"]["allocation"] == [
        {
            "index": 0,
            "name": "n1",
            "cpus": {"count": 1, "used": 0},
            "memory": {"used": 0, "allocated": 1000},
            "sockets": [{"index": 0, "cores": [{"index": 0, "status": ["ALLOCATED"]}]}],
        }
    ]
    (same,) = document(newer, "scontrol show job 26 --json")["jobs"]
    assert same == one


@pytest.mark.parametrize(
    ("state", "shown"),
    [
        ("CONFIGURING", ["RUNNING", "CONFIGURING"]),
        ("COMPLETING", ["COMPLETED", "COMPLETING"]),
        ("SUSPENDED", ["SUSPENDED"]),
    ],
)
def test_marks_upon_a_state(world: World, monkeypatch: pytest.MonkeyPatch, state: str, shown: list[str]) -> None:
    monkeypatch.setenv("SHIM_SLURM_VERSION", "25.11")
    world.index(
        [reference.running(1, state=state, request=JobRequest(mail_type="END,TIME_LIMIT_80", exclusive="user"))]
    )
    (one,) = document(world, "squeue --json")["jobs"]
    assert one["job_state"] == shown
    assert (one["mail_type"], one["shared"]) == (["END", "TIME=80%"], ["user"])
    check_newer(
        [one],
        "jobs-v0.0.43.txt",
        ("job_size_str[]", "power.flags[]", "priority_by_partition[]", "gres_detail[]", "flags[]"),
    )


def test_nodes_and_partitions_are_chosen_by_name(newer: World) -> None:
    assert [one["name"] for one in document(newer, "scontrol show node n[2-3] --json")["nodes"]] == ["n2", "n3"]
    (gpu,) = document(newer, "scontrol show partition=gpu --json")["partitions"]
    assert gpu["nodes"] == {"allowed_allocation": "", "configured": "n[3-4]", "total": 2}
    assert gpu["maximums"]["time"] == {"set": True, "infinite": False, "number": 120}
    assert gpu["defaults"]["time"]["number"] == 30


def test_limits_of_memory_and_sharing_of_a_partition() -> None:
    shared = Partition(name="p", oversubscribe="FORCE:3", def_mem_per_cpu=100, max_mem_per_node=900, state="DOWN")
    one = partition_record(reference.cluster().replace(partitions=(shared,)), shared)
    assert one["defaults"]["memory_per_cpu"] == 1 << 63 | 100  # as Slurm marks what is meant of a CPU
    assert one["defaults"]["partition_memory_per_cpu"]["number"] == 100
    assert (one["maximums"]["memory_per_cpu"], one["maximums"]["partition_memory_per_cpu"]["set"]) == (900, False)
    assert one["maximums"]["oversubscribe"] == {"jobs": 3, "flags": ["force"]}
    assert one["partition"] == {"state": ["DOWN"]}


def test_a_job_that_shares_its_nodes_and_has_no_limit(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.index([reference.running(1, request=JobRequest(oversubscribe=True), time_limit=INFINITE)])
    (one,) = document(world, "squeue --json")["jobs"]
    assert (one["shared"], one["time_limit"]) == ("shared", None)
    assert document(world, "sacct --json -a -j 1")["jobs"][0]["time"]["limit"] is None
    monkeypatch.setenv("SHIM_SLURM_VERSION", "25.11")
    assert document(world, "squeue --json")["jobs"][0]["shared"] == ["oversubscribe"]


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (
            "sinfo --json",
            "sinfo: error: --json is not supported here: the layout of its groups of nodes is published nowhere; scontrol show"
            " nodes has each node",
        ),
        ("squeue --json=v0.0.41", "squeue: error: --json=v0.0.41 is not supported here: v0.0.43 is"),
        ("scontrol --yaml show config", "scontrol: error: show config is not supported here with --json or --yaml"),
        ("scontrol --json ping", "scontrol: error: ping is not supported here with --json or --yaml"),
        ("scontrol show job 999 --json", "slurm_load_jobs error: Invalid job id specified"),
        ("scontrol show node nosuch --json", "Node nosuch not found"),
    ],
)
def test_what_the_newer_release_has_no_document_of(newer: World, command: str, text: str) -> None:
    program, *argv = command.split()
    result = newer.run(program, *argv)
    assert (result.code, result.out + result.err) == (1, text + "\n")


def test_the_layout_may_be_named(newer: World) -> None:
    named = document(newer, "squeue --json=v0.0.43")["jobs"]
    assert (
        named
        == document(newer, "squeue --json=data_parser/v0.0.43")["jobs"]
        == document(newer, "squeue --json")["jobs"]
    )


@pytest.mark.parametrize("command", ["squeue", "sacct -S now-2days", "scontrol show nodes", "scontrol show partitions"])
def test_yaml_of_the_newer_layout_says_what_json_says(newer: World, command: str) -> None:
    program, *argv = command.split()
    in_json = json.loads(newer.run(program, "--json", *argv).out)
    in_yaml = yaml.safe_load(newer.run(program, "--yaml", *argv).out)
    assert {**in_yaml, "meta": {}} == {**in_json, "meta": {}}
