"""Command lines through our commands and directly, on a real Slurm: the same bytes and the same status, ids and times apart."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from compat.cluster import slurm
from shim.control.index.reader import open_reader
from shim.core.model.job import Job
from tests.control.backends.slurm.fake import OURS, end_all, on_terminal
from tests.support import wait_until

pytestmark = pytest.mark.real_slurm
NAME = f"passing-{os.getpid()}"
DIRECT = "/usr/sbin:/usr/bin:/sbin:/bin"


@pytest.fixture(scope="module", autouse=True)
def real_slurm() -> None:
    """A real Slurm; where there must be one, a test that is not run is no test passed."""
    if os.geteuid() != 0 or not slurm.is_up():
        refuse = pytest.fail if os.environ.get("SHIM_TEST_SLURM") else pytest.skip
        refuse("no real Slurm: compat/cluster/slurm.py up (as root)")


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The real cluster without any configuration of ours, and a job of it to look at."""
    monkeypatch.setenv("SLURM_CONF", str(slurm.CONF))
    monkeypatch.setenv("SHIM_PYTHON", sys.executable)
    monkeypatch.setenv("NAME", NAME)
    monkeypatch.chdir(tmp_path)
    yield
    subprocess.run(["/usr/bin/scancel", "-n", NAME], check=True, timeout=60)
    end_all(tmp_path / "state")


# Whether a job had to wait, and whether its end is said twice, differs from call to call.
WAITING = r"^s\w+: (Pending job allocation|job ID (queued|has been)|Job allocation ID has been revoked).*\r?\n"


def through() -> str:
    return f"{OURS}:{DIRECT}"


def told(line: str, path: str, folder: str) -> tuple[int, str, str]:
    """Status, output and error of a shell line, with what differs between two runs of the same command made equal."""
    Path(folder).mkdir(exist_ok=True)
    done = subprocess.run(
        ["/bin/bash", "-c", line],
        env={**os.environ, "PATH": path},
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=120,
    )
    # What srun and what the node's daemon says of a failure comes in either order.
    return done.returncode, plain(done.stdout), "\n".join(sorted(plain(done.stderr).splitlines()))


def plain(data: bytes) -> str:
    text = data.decode("latin-1")
    text = re.sub(r"\b7\d{5}\b", "ID", text)
    text = re.sub(r"/job\d+/", "/jobID/", text)
    text = re.sub(r"\bnode\d\b", "node", text)  # where a small job finds a place
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", "TIME", text)
    return re.sub(WAITING, "", text, flags=re.MULTILINE)


def same(line: str) -> tuple[int, str, str]:
    """Asserts that both ways say the same; what they say. At the same time, as most of it is waiting for Slurm."""
    with ThreadPoolExecutor(2) as both:
        direct = both.submit(told, line, DIRECT, "direct")
        ours = both.submit(told, line, through(), "ours")
        assert ours.result() == direct.result(), line
    return direct.result()


SUBMIT = "sbatch -J $NAME -o /dev/null --hold"
QUERIES = """
squeue -n $NAME
squeue -h -n $NAME -o '%i|%j|%t|%u|%P|%D|%C|%r'
squeue -n $NAME -O jobid,name,state,reason --noheader
squeue -n $NAME -l | tail -n +2
squeue --start -n $NAME
squeue -t all -n no-such-job
squeue -j 1
squeue -j nonsense
squeue -u no-such-user
squeue -t nonsense
squeue -w no-such-node
squeue --nosuch
squeue -o
squeue extra
squeue --help
squeue --usage
squeue -V
squeue -S i -n $NAME -o '%i   %Q'
squeue --me -n $NAME -h
squeue -n $NAME --array -h -o %K
squeue -i nonsense
squeue -n $NAME -O nosuchfield
sinfo -h -o '%P %l %c %m %D'
sinfo -N -h -o '%N %c %G'
sinfo -p debug -h -o '%P %R'
sinfo -p nosuch
sinfo -n node1 -h -o %N
sinfo --nosuch
sinfo -V
sinfo --usage
sinfo -s -h -o '%P %F' | wc -w
sinfo -t nonsense
scontrol show config | grep -c =
scontrol show partition debug | head -n 3
scontrol show partition nosuch
scontrol show node node1 | head -n 2 | cut -c1-40
scontrol show node nosuch
scontrol show hostnames 'n[1-3,7]'
scontrol show hostlist n1,n2,n3
scontrol show job 1
scontrol -o show partition gpu
scontrol show nonsense
scontrol nonsense
scontrol --version
scontrol ping | cut -d' ' -f1-3
scontrol hold 1
scontrol update jobid=1 name=x
scontrol requeue nonsense
printf 'show hostnames a[1-2]\\nquit\\n' | scontrol
scancel 1
scancel nonsense
scancel --nosuch
scancel
scancel -n no-such-job
scancel -V
printf 'n\\n' | scancel -i -n no-such-job
sacct
sacct -j 1
sacct --nosuch
sbatch --version
sbatch --help | wc -l
sbatch --usage
sbatch --nosuch
sbatch -N nonsense --wrap true
sbatch no-such-script.sh
sbatch --wrap true extra
sbatch -p nosuch --wrap true
sbatch -J $NAME -n 5000 --wrap true
sbatch -t nonsense --wrap true
sbatch --test-only --wrap true | wc -c
sbatch -J $NAME -d afterok:1 --wrap true
srun --nosuch
srun
srun -p nosuch true
srun -V
salloc --nosuch
salloc -p nosuch true
salloc -V
salloc no-such-command-at-all
"""
SUBMISSIONS = """
$SUBMIT --wrap true
$SUBMIT --parsable --wrap true
$SUBMIT --quiet --wrap true
$SUBMIT -vv --wrap true 2>/dev/null
$SUBMIT --array=0-3%2 --wrap true
$SUBMIT --parsable --array=1,5 --wrap true
printf '#!/bin/sh\\n#SBATCH -J other\\ntrue\\n' | $SUBMIT
printf '#!/bin/sh\\n#SBATCH --nosuch\\ntrue\\n' | $SUBMIT
printf 'no shebang\\n' | $SUBMIT
printf '#!/bin/sh\\r\\ntrue\\r\\n' | $SUBMIT
$SUBMIT <(printf '#!/bin/sh\\ntrue\\n') a b
SBATCH_PARTITION=nosuch $SUBMIT --wrap true
id=$($SUBMIT --parsable --wrap true); scontrol show job $id | grep -v 'Time=\\|JobId\\|AllocNode\\|WorkDir\\|Priority'; scancel $id; echo $?
id=$($SUBMIT --parsable --wrap true); scontrol update jobid=$id name=new; squeue -h -j $id -o '%j %r'; scancel $id
id=$($SUBMIT --parsable --wrap 'echo in the script'); scontrol write batch_script $id -
sbatch -J $NAME -o out.txt --wait --wrap 'echo said; exit 5'; echo $?; cat out.txt
sbatch -J $NAME -o out.txt --wait --wrap 'kill -9 $$'; echo $?
"""
RUNS = """
srun -J $NAME echo hello
srun -J $NAME -n2 -l sh -c 'echo $SLURM_PROCID; echo err >&2' 2>&1 | sort
srun -J $NAME sh -c 'exit 42'
srun -J $NAME sh -c 'kill -TERM $$'
srun -J $NAME no-such-command
salloc -J $NAME sh -c 'exit 9'
salloc -J $NAME sh -c 'echo $SLURM_JOB_NAME; srun -n2 echo in; squeue -h -j $SLURM_JOB_ID -o %j; sbatch --nosuch' 2>&1
salloc -J $NAME -Q sh -c 'printf a; printf b >&2; printf c' 2>&1
salloc -J $NAME sh -c 'readlink /proc/$$/fd/2' 2>&1 >/dev/null | grep -c pipe
"""


def lines(text: str) -> list[str]:
    return [line.replace("$SUBMIT", SUBMIT) for line in text.strip().splitlines()]


def test_queries_and_refusals() -> None:
    subprocess.run(["/bin/bash", "-c", f"{SUBMIT} --wrap true"], check=True, capture_output=True, timeout=60)
    spoken = [same(line) for line in lines(QUERIES)]
    assert sum(code == 0 for code, _, _ in spoken) > 30
    assert sum(code != 0 for code, _, _ in spoken) > 25


def test_submissions() -> None:
    for line in lines(SUBMISSIONS):
        same(line)

    def rows() -> list[Job]:
        reader = open_reader(str(next(Path("state").glob("*/index.db"))))
        return reader.passed_jobs() if reader is not None else []

    wait_until(lambda: [job.name for job in rows()].count(NAME) >= 12, "the rows of the jobs")
    assert {job.cluster for job in rows()} == {"slurm"}


def test_runs_and_allocations() -> None:
    for line in lines(RUNS):
        same(line)


def test_input_and_binary_output() -> None:
    data = os.urandom(10 << 20)
    for path in (DIRECT, through()):
        done = subprocess.run(
            ["srun", "-J", NAME, "-Q", "cat"],
            env={**os.environ, "PATH": path},
            input=data,
            capture_output=True,
            timeout=120,
        )
        assert (done.returncode, done.stdout == data, done.stderr) == (0, True, b"")


# salloc gives its command the terminal when that has begun already: who uses it before is stopped, and stays so.
FRONT = "until [ $(($(ps -o tpgid= -p $$))) = $$ ]; do sleep 0.05; done; "
SHELL = ["salloc", "-J", NAME, "sh", "-c"]
TERMINAL: list[tuple[list[str], list[tuple[bytes, bytes]]]] = [
    (
        [*SHELL, FRONT + "test -t 0 && test -t 1 && test -t 2 && echo three; stty -a </dev/tty | grep -c isig; exit 6"],
        [],
    ),
    # Interrupted while the command runs: the command has the terminal, salloc goes on.
    (
        [*SHELL, FRONT + "trap 'echo caught; exit 7' INT; echo rea''dy; while :; do sleep 0.1; done"],
        [(b"ready", b"\x03")],
    ),
    ([*SHELL, FRONT + "exec bash --norc --noprofile -i"], [(b"$ ", b"echo $((6*7)); exit 3\n")]),
    (["srun", "-J", NAME, "--pty", "sh", "-c", "tty >/dev/null && read word && echo got $word"], [(b"", b"typed\n")]),
]


@pytest.mark.parametrize("number", range(len(TERMINAL)))
def test_on_a_terminal(number: int) -> None:
    words, typed = TERMINAL[number]

    def seen(path: str) -> tuple[int, list[str]]:
        code, shown = on_terminal(words, {**os.environ, "PATH": path, "TERM": "dumb", "PS1": "$ "}, typed)
        return code, plain(shown).splitlines()

    assert seen(through()) == seen(DIRECT)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_to_sbatch_wait(number: signal.Signals) -> None:
    def ended(path: str) -> int:
        process = subprocess.Popen(
            ["sbatch", "-J", NAME, "-o", "/dev/null", "--wait", "--wrap", "sleep 100"],
            env={**os.environ, "PATH": path},
            stdout=subprocess.PIPE,
        )
        with process:
            assert process.stdout is not None
            assert process.stdout.readline().startswith(b"Submitted batch job ")
            process.send_signal(number)
            return process.wait(timeout=60)

    before = signal.signal(number, signal.SIG_DFL)  # under nohup it is ignored, and then sbatch ignores it too
    try:
        assert ended(through()) == ended(DIRECT)
    finally:
        signal.signal(number, before)


def configure(folder: Path, text: str) -> None:
    """Writes the user's configuration."""
    path = folder / "config" / "shim" / "config.toml"
    path.parent.mkdir(parents=True)
    path.write_text(text)


def test_in_a_job_of_it_our_commands_are_its(tmp_path: Path) -> None:
    configure(tmp_path, 'default = "local"\n[clusters.local]\n[clusters.hpc]\nbackend = "slurm"\n')
    script = tmp_path / "job.sh"
    script.write_text(
        f"#!/bin/bash\nexport PATH={through()}\nsrun -n1 hostname | wc -l\nsqueue -h -j $SLURM_JOB_ID -o %j\n"
        "scontrol show hostnames\nsrun -n2 sh -c 'squeue -h -j $SLURM_JOB_ID -o %T'\n"
    )
    out = tmp_path / "out.txt"
    subprocess.run(
        [OURS / "sbatch", "-M", "hpc", "-J", NAME, "-n2", "-o", out, "--wait", script], check=True, timeout=120
    )
    text = wait_until(lambda: out.read_text() if out.exists() else "", "the job's output")
    assert plain(text.encode()) == f"1\n{NAME}\nnode\nRUNNING\nRUNNING\n"


@pytest.mark.parametrize("shell", ["/bin/bash", "/bin/sh"])
def test_skypilot_variables_in_the_batch_step_and_in_tasks(tmp_path: Path, shell: str) -> None:
    configure(tmp_path, '[clusters.hpc]\nbackend = "slurm"\nskypilot_env = true\n')
    script = tmp_path / "job.sh"
    script.write_text(
        f"#!{shell}\n#SBATCH -N2 -n2 --gpus-per-node=1\n"
        'echo "$SKYPILOT_NODE_RANK $SKYPILOT_NUM_NODES $SKYPILOT_NUM_GPUS_PER_NODE" $SKYPILOT_NODE_IPS\n'
        "srun sh -c 'echo $SKYPILOT_NODE_RANK $SLURM_NODEID' | sort\nexit 5\n"
    )
    done = subprocess.run([OURS / "sbatch", "-J", NAME, "-o", "out.txt", "--wait", script], timeout=120, check=False)
    assert done.returncode == 5
    first, *ranks = (tmp_path / "out.txt").read_text().splitlines()
    assert re.match(r"0 2 1 \S+ \S+$", first)
    assert ranks == ["0 0", "1 1"]
