"""Slurm's part of a SkyPilot task that was made of a batch script. The text of this file goes into the task as it is: it needs Python 3.8
and nothing else.

By the name that it is called by, or its first argument:

batch     runs the script on the first node, with its time limit and its signal
srun      starts tasks on the nodes of the task: one process of ``node`` on each, on other nodes over SSH, for which SkyPilot sets up keys
scontrol  answers ``show hostnames``
node      starts the tasks of one node. Standard input has the order and, later, numbers of signals; its end ends the tasks
"""

from __future__ import annotations

import getopt
import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time

# Options of srun that do here what they do on Slurm: long name, with "=" if a value follows -> letter.
HONOURED = {
    "ntasks=": "n:",
    "nodes=": "N:",
    "ntasks-per-node=": "",
    "cpus-per-task=": "c:",
    "gpus-per-task=": "",
    "nodelist=": "w:",
    "exclude=": "x:",
    "relative=": "r:",
    "chdir=": "D:",
    "output=": "o:",
    "error=": "e:",
    "label": "l",
    "kill-on-bad-exit": "K",
    "het-group=": "",
    "export=": "",
}
# Those that have nothing to act on: the nodes are the task's alone, and there is no daemon that would bind or account.
INERT = {
    "unbuffered": "u",
    "quiet": "Q",
    "verbose": "v",
    "exclusive": "",
    "exact": "",
    "overlap": "",
    "oversubscribe": "s",
    "overcommit": "O",
    "cpu-bind=": "",
    "mem-bind=": "",
    "gpu-bind=": "",
    "accel-bind=": "",
    "distribution=": "m:",
    "hint=": "",
    "threads-per-core=": "",
    "mem=": "",
    "mem-per-cpu=": "",
    "mem-per-gpu=": "",
    "gpus=": "G:",
    "gpus-per-node=": "",
    "gres=": "",
    "job-name=": "J:",
    "partition=": "p:",
    "wait=": "W:",
}
# How tasks of other nodes are started.
SSH = ("ssh", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no", "-o", "LogLevel=ERROR")
_PYTHON = "$(command -v python3 || echo ~/skypilot-runtime/bin/python)"
_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT)
_OF_ONE_NODE = ("HOSTNAME", "PWD", "OLDPWD", "SHLVL", "_", "SKYPILOT_NODE_RANK")  # variables, and those of SSH
_KILL_WAIT = 30  # seconds from SIGTERM to SIGKILL


class Refused(Exception):
    """A command line that cannot be carried out here."""


class Part:
    """What one command of an srun line asks for (a line has several, with colons, for the components of a heterogeneous job)."""

    def __init__(self, words: list[str], place: int) -> None:
        words = ["-K" if word in ("-K1", "--kill-on-bad-exit=1") else word for word in words]
        every = {**HONOURED, **INERT}
        try:
            found, self.command = getopt.getopt(words, "".join(every.values()), list(every))
        except getopt.GetoptError as problem:
            raise Refused(f"{problem.msg}: srun of a SkyPilot task does not know it")
        letters = {f"-{letter[0]}": f"--{name.rstrip('=')}" for name, letter in every.items() if letter}
        self.asked = {letters.get(name, name): value for name, value in found}
        self.components = components(self.asked.get("--het-group", str(place)))

    def number(self, name: str, default: int) -> int:
        """The number that the option has; ``default`` where it is not given."""
        text = self.asked.get(f"--{name}", str(default))
        if not text.isdigit():
            raise Refused(f'--{name}: "{text}" is no number')
        return int(text)

    def counts(self, size: int) -> list[int]:
        """How many tasks each of ``size`` nodes gets. The job's number of tasks counts as srun's own."""
        each = self.number("ntasks-per-node", int(os.environ.get("SLURM_NTASKS_PER_NODE", "0")))
        tasks = self.number("ntasks", int(os.environ.get("SLURM_NTASKS", "0"))) or each * size or size
        if "--ntasks" not in self.asked and tasks != each * size:
            each = 0
        if each:
            return [max(0, min(each, tasks - node * each)) for node in range(size)]
        return [tasks // size + (node < tasks % size) for node in range(size)]


def components(text: str) -> list[int]:
    """The numbers of ``0,2-3``."""
    found: list[int] = []
    for word in text.split(","):
        first, _, last = word.partition("-")
        if not (first.isdigit() and (last or first).isdigit()):
            raise Refused(f'--het-group: "{text}" is no list of components')
        found += range(int(first), int(last or first) + 1)
    return found


def nodes_of(part: Part) -> list[int]:
    """The ranks of the nodes that the step gets."""
    addresses = os.environ["SKYPILOT_NODE_IPS"].split()
    named = [word for word in part.asked.get("--nodelist", "").split(",") if word]
    unknown = [word for word in named if word not in addresses]
    if unknown:
        raise Refused(f"Requested node configuration is not available: no node {unknown[0]}")
    excluded = part.asked.get("--exclude", "").split(",")
    found = [rank for rank, one in enumerate(addresses) if one not in excluded and (not named or one in named)]
    found = found[part.number("relative", 0) :]
    size = part.number("nodes", len(found))
    if not found or size > len(found):
        raise Refused("Requested node configuration is not available")
    return found[:size]


def srun(words: list[str]) -> int:
    """Runs the step; its exit code is the highest of its tasks'."""
    own = int(os.environ.get("SHIM_HET_GROUP", "0"))
    parts: list[Part] = []
    before = 0
    rest = words
    while rest:
        cut = rest.index(":") if ":" in rest else len(rest)
        parts.append(Part(rest[:cut], len(parts)))
        rest = rest[cut + 1 :]
    placed = [(component, part) for part in parts for component in part.components]
    mine = [at for at, (component, _) in enumerate(placed) if component == own]
    if not mine:
        return 0  # another component's task starts these
    part = placed[mine[0]][1]
    sizes = [int(size) for size in os.environ.get("SHIM_HET_NODES", "").split(",") if size]
    for component, other in placed[: mine[0]]:
        if component >= len(sizes):
            raise Refused(f"--het-group: there is no component {component}")
        before += sum(other.counts(sizes[component]))
    if not part.command:
        raise Refused("No command given to execute.")
    nodes = nodes_of(part)
    counts = part.counts(len(nodes))
    in_use = [(node, count) for node, count in zip(nodes, counts) if count]
    if part.asked.get("--export", "ALL").split(",")[0] != "ALL":
        raise Refused("--export without ALL: srun of a SkyPilot task does not know it")
    step = begun()
    started = []
    first = before
    for place, (node, count) in enumerate(in_use):
        started.append(start(node, order(part, step, place, first, in_use, before)))
        first += count
    try:
        return ended(started, "--kill-on-bad-exit" in part.asked)
    finally:
        with open(f"{os.environ['SHIM_SLURM']}/step.{step}", "w"):
            pass  # whoever has that process id next is not to be signalled


def begun() -> int:
    """The number of a new step: whoever makes its file first has it. The file tells ``batch`` whom to signal."""
    folder = os.environ["SHIM_SLURM"]
    for step in range(1 << 20):
        try:
            file = os.open(f"{folder}/step.{step}", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        except FileExistsError:
            continue
        os.write(file, str(os.getpid()).encode())
        os.close(file)
        return step
    raise Refused("too many steps")


def order(
    part: Part, step: int, place: int, first: int, in_use: list[tuple[int, int]], before: int
) -> dict[str, object]:
    """What ``node`` is told: the command, its variables, and what each task has for itself."""
    node, count = in_use[place]
    total = sum(one for _, one in in_use)
    addresses = os.environ["SKYPILOT_NODE_IPS"].split()
    every = {
        name: value
        for name, value in os.environ.items()
        if name not in _OF_ONE_NODE and not name.startswith(("SSH_", "BASH_FUNC_"))
    }
    for word in part.asked.get("--export", "").split(","):
        name, equals, value = word.partition("=")
        if equals:
            every[name] = value
    every.update(
        SLURM_STEP_ID=str(step),
        SLURM_STEPID=str(step),
        SLURM_NTASKS=str(total),
        SLURM_NPROCS=str(total),
        SLURM_STEP_NUM_TASKS=str(total),
        SLURM_STEP_NUM_NODES=str(len(in_use)),
        SLURM_NNODES=str(len(in_use)),
        SLURM_STEP_NODELIST=",".join(addresses[one] for one, _ in in_use),
        SLURM_TASKS_PER_NODE=",".join(str(one) for _, one in in_use),
        SLURM_NODEID=str(place),
        SLURMD_NODENAME=addresses[node],
        SKYPILOT_NODE_RANK=str(node),
    )
    if "--cpus-per-task" in part.asked:
        every["SLURM_CPUS_PER_TASK"] = part.asked["--cpus-per-task"]
    gpus = int(part.asked.get("--gpus-per-task", "0").rpartition(":")[2])
    job = os.environ.get("SLURM_JOB_ID", "0")
    tasks = []
    for local in range(count):
        rank = first + local
        own = {"SLURM_PROCID": str(rank), "SLURM_LOCALID": str(local)}
        if gpus:
            own["CUDA_VISIBLE_DEVICES"] = ",".join(str(one) for one in range(local * gpus, (local + 1) * gpus))
        words = {
            "%t": str(rank),
            "%n": str(place),
            "%j": job,
            "%s": str(step),
            "%N": addresses[node],
            "%J": f"{job}.{step}",
        }
        files = {name: filled(part.asked.get(f"--{name}", ""), words) for name in ("output", "error")}
        tasks.append({"env": own, "label": f"{rank}: " if "--label" in part.asked else "", **files})
    return {
        "argv": part.command,
        "cwd": part.asked.get("--chdir", os.getcwd()),
        "env": every,
        "tasks": tasks,
        "kill": "--kill-on-bad-exit" in part.asked,
    }


def filled(pattern: str, words: dict[str, str]) -> str:
    """A file's name with the letters in it expanded."""
    for word, value in words.items():
        pattern = pattern.replace(word, value)
    return pattern


def start(node: int, told: dict[str, object]) -> subprocess.Popen[bytes]:
    """``node`` on the node of that rank; this one's rank is SKYPILOT_NODE_RANK."""
    with open(__file__, encoding="utf-8") as file:
        program = file.read()
    if str(node) == os.environ["SKYPILOT_NODE_RANK"]:
        command = [sys.executable, "-c", program, "node"]
    else:
        address = os.environ["SKYPILOT_NODE_IPS"].split()[node]
        command = [*SSH, address, f"exec {_PYTHON} -c {shlex.quote(program)} node"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE)
    say(process, json.dumps(told))
    return process


def say(process: subprocess.Popen[bytes], line: str) -> None:
    """Sends a line; a process that has ended hears nothing."""
    try:
        if process.stdin is not None:
            process.stdin.write(line.encode() + b"\n")
            process.stdin.flush()
    except (OSError, ValueError):
        pass


def ended(started: list[subprocess.Popen[bytes]], kill: bool) -> int:
    """Waits for the nodes, passing signals on; the highest of their codes."""

    def pass_on(number: int, _frame: object) -> None:
        for process in started:
            say(process, str(number))

    for number in _PASSED_ON:
        signal.signal(number, pass_on)
    worst = 0
    left = list(started)
    while left:
        for process in list(left):
            try:
                code = process.wait(0.05)
            except subprocess.TimeoutExpired:
                continue
            left.remove(process)
            worst = max(worst, 128 - code if code < 0 else code)
            if code and kill:
                for other in left:
                    if other.stdin is not None and not other.stdin.closed:
                        other.stdin.close()
    return worst


def node() -> int:
    """Starts the tasks of this node and waits for them."""
    told = json.loads(sys.stdin.readline())
    tasks: list[subprocess.Popen[bytes]] = []
    for one in told["tasks"]:
        environ = {**os.environ, **told["env"], **one["env"]}
        label = one["label"]
        out, err = (opened(one[name]) for name in ("output", "error"))
        err = out if err is None else err
        piped = subprocess.PIPE if label else None
        try:
            task = subprocess.Popen(
                told["argv"],
                cwd=told["cwd"],
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=piped if out is None else out,
                stderr=piped if err is None else err,
                start_new_session=True,
            )
        except OSError as problem:
            sys.stderr.write(f"slurmstepd: error: execve(): {told['argv'][0]}: {problem.strerror}\n")
            end(tasks, signal.SIGKILL)
            return 2
        tasks.append(task)
        for stream, to in ((task.stdout, sys.stdout), (task.stderr, sys.stderr)):
            if stream is not None:
                threading.Thread(target=labelled, args=(stream, to, label)).start()
    threading.Thread(target=obey, args=(tasks,), daemon=True).start()
    codes = []
    for task in tasks:
        code = task.wait()
        codes.append(128 - code if code < 0 else code)
        if code and told["kill"]:
            end(tasks, signal.SIGTERM)
    return max(codes)


def opened(path: str) -> int | None:
    """A descriptor for what is written to the file; None without one."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666) if path else None


def labelled(stream: object, to: object, label: str) -> None:
    """Passes lines on with the task's number in front."""
    for line in stream:  # type: ignore[attr-defined]
        to.buffer.write(label.encode() + line)  # type: ignore[attr-defined]
        to.flush()  # type: ignore[attr-defined]


def obey(tasks: list[subprocess.Popen[bytes]]) -> None:
    """Signals the tasks as standard input says; its end means that srun is gone."""
    for line in sys.stdin:
        if line.strip().isdigit():
            end(tasks, int(line))
    end(tasks, signal.SIGTERM)
    time.sleep(_KILL_WAIT)
    end(tasks, signal.SIGKILL)


def end(tasks: list[subprocess.Popen[bytes]], number: int) -> None:
    """Signals those that have not ended, with all that they have started."""
    for task in tasks:
        if task.poll() is None:
            try:
                os.killpg(task.pid, number)
            except ProcessLookupError:
                pass


def batch(words: list[str]) -> int:
    """Runs the script: ``LIMIT SIGNAL LEAD WHOM SCRIPT ARGUMENTS…``, in seconds, 0 for none. WHOM: "script", or "steps"."""
    limit, number, lead = (int(word) for word in words[:3])
    child = subprocess.Popen(words[4:])

    def tell(what: int, whom: str) -> None:
        if whom != "steps" and child.poll() is None:
            child.send_signal(what)
        if whom != "script":
            for pid in steps():
                try:
                    os.kill(pid, what)
                except OSError:
                    pass

    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, lambda given, _frame: tell(given, "all"))
    begun_at = time.monotonic()
    due = [(limit - lead, number, words[3])] if number and limit else []
    if limit:
        due += [(limit, signal.SIGTERM, "all"), (limit + _KILL_WAIT, signal.SIGKILL, "all")]
    for after, what, whom in due:
        try:
            code = child.wait(max(0.0, begun_at + after - time.monotonic()))
            return 128 - code if code < 0 else code
        except subprocess.TimeoutExpired:
            if after == limit:
                sys.stderr.write(
                    f"slurmstepd: error: *** JOB {os.environ.get('SLURM_JOB_ID')} CANCELLED DUE TO TIME LIMIT ***\n"
                )
            tell(what, whom)
    code = child.wait()
    return 128 - code if code < 0 else code


def steps() -> list[int]:
    """The processes of srun in this job."""
    folder = os.environ["SHIM_SLURM"]
    found = []
    for name in os.listdir(folder):
        if name.startswith("step."):
            with open(f"{folder}/{name}", encoding="ascii") as file:
                found.append(int(file.read() or 0))
    return [pid for pid in found if pid]


def scontrol(words: list[str]) -> int:
    """``show hostnames [LIST]``: nodes of a SkyPilot task are named by their addresses."""
    if words[:2] not in (["show", "hostnames"], ["show", "hostname"]):
        raise Refused(f"{' '.join(words)}: scontrol of a SkyPilot task answers show hostnames only")
    given = words[2] if len(words) > 2 else os.environ["SLURM_JOB_NODELIST"]
    print("\n".join(given.split(",")))
    return 0


def main(name: str, words: list[str]) -> int:
    """Does what the program of that name does."""
    try:
        if name == "node":
            return node()
        return {"srun": srun, "scontrol": scontrol, "batch": batch}[name](words)
    except Refused as problem:
        sys.stderr.write(f"{name}: error: {problem}\n")
        return 1


if __name__ == "__main__":
    called = os.path.basename(sys.argv[0])
    given = sys.argv[1:]
    if given[:1] in (["batch"], ["node"]):
        called, given = given[0], given[1:]
    sys.exit(main(called, given))
