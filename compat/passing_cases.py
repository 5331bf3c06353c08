"""What people type at a real Slurm: command lines that must do the same through our commands, byte for byte.

``Line``: a shell line, its output and errors through pipes. ``Terminal``: a program on a terminal, with what is typed when a
text has appeared. ``Signalled``: a program that gets signals once it has made the file ``ready``.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass

BLOB = bytes(range(256)) * 40_000  # 10 MB, every byte there is

JOB = """\
#!/bin/bash
#SBATCH -J passing
#SBATCH -o out.txt
echo "in the job: $# $1"
srun -n1 echo "in a step"
squeue -h -j $SLURM_JOB_ID -o '%j %T'
scontrol show hostnames
exit 4
"""


@dataclass(frozen=True)
class Line:
    """``text`` for bash -c; ``stdin``: its standard input. ``any_order``: the lines of its output come in none promised."""

    text: str
    stdin: bytes = b""
    any_order: bool = False


@dataclass(frozen=True)
class Terminal:
    """``text`` for bash -c on a terminal of 80 × 24; ``typed``: after which text to type what."""

    text: str
    typed: tuple[tuple[bytes, bytes], ...] = ()


@dataclass(frozen=True)
class Signalled:
    """The program itself (no shell between); ``signals`` are sent a little apart once it is ``ready``."""

    text: str
    signals: tuple[signal.Signals, ...]


Case = Line | Terminal | Signalled

_SUBMITTING = [
    Line("sbatch --version"),
    Line("sbatch -V"),
    Line("sbatch --usage"),
    Line("sbatch --help"),
    Line("sbatch -H job.sh"),
    Line("sbatch -H --parsable job.sh"),
    Line("sbatch -H -Q job.sh"),
    Line("sbatch -H job.sh one 'two words'"),
    Line("sbatch -H", b"#!/bin/sh\n#SBATCH -J piped\ntrue\n"),
    Line("sbatch -H /dev/stdin <job.sh"),
    Line("sbatch -H <<<$'#!/bin/sh\\ntrue'"),
    Line("sbatch -H --wrap 'echo \"quoted  blanks\"' -J 'a b'"),
    Line("sbatch -H -a 1-3%2 --wrap true"),
    Line("sbatch -H -N4 -n2 --wrap true"),
    Line("sbatch -H -p gpu,debug --comment=$'byte \\xff' --wrap true"),
    Line("SBATCH_JOB_NAME=variable SBATCH_TIMELIMIT=5 sbatch -H --parsable job.sh"),
    Line("sbatch -v -H job.sh"),
    Line("sbatch --test-only job.sh"),
    Line("sbatch --test-only -N9 job.sh"),
    Line("sbatch -n0 job.sh"),
    Line("sbatch --nosuch job.sh"),
    Line("sbatch -p nosuch job.sh"),
    Line("sbatch nosuch.sh"),
    Line("sbatch", b"no script\n"),
    Line("sbatch -H job.sh >&-"),
    Line("sbatch -H job.sh >/dev/full"),
    Line("sbatch -W job.sh; echo $?; cat out.txt"),
    Line("id=$(sbatch -H --parsable job.sh); squeue -h -j $id -o '%j %T %D'; scancel $id"),
    Line(
        "mkdir deep; cd deep; sbatch -H --parsable ../job.sh >id; scontrol show job $(cat id) | grep -c WorkDir=.*/deep"
    ),
    Line("sbatch -H -D /tmp --export=NONE -o /tmp/none job.sh"),
    Line("id=$(sbatch -H --parsable job.sh | tee /dev/stderr); sbatch -H -d afterok:$id job.sh"),
]
_ASKING = [
    Line("squeue --version"),
    Line("squeue -h --me -n nosuch"),
    Line("squeue -j 1"),
    Line("squeue --nosuch"),
    Line("squeue -o '%i|%j' -n nosuch"),
    Line("squeue -O jobid:9,name:.5 -n nosuch"),
    Line("squeue --help"),
    Line("SQUEUE_FORMAT='%j' squeue -n nosuch"),
    Line("id=$(sbatch -H --parsable -J listed job.sh); squeue -j $id; squeue -s -j $id; squeue --start -h -j $id"),
    Line("sinfo"),
    Line("sinfo -N", any_order=True),
    Line("sinfo -h -o '%P %D %N %G'"),
    Line("sinfo -R; sinfo -s; sinfo -t bad"),
    Line("scontrol version"),
    Line("scontrol ping"),
    Line("scontrol show partition"),
    Line("scontrol show node node1 | grep -v -e CPULoad -e FreeMem -e LastBusy"),
    Line("scontrol show config | head -n 5 | tail -n 4"),
    Line("scontrol show hostnames 'n[08-11],m'"),
    Line("scontrol show job 1"),
    Line("scontrol", b"show hostnames n[1-2]\nnosuch\nquit\n"),
    Line("scontrol -o show partition gpu | cat"),
    Line(
        "id=$(sbatch -H --parsable job.sh); scontrol write batch_script $id -; scontrol -o show job $id | tr ' ' '\\n' | head -3"
    ),
    Line(
        "id=$(sbatch -H --parsable job.sh); scontrol update jobid=$id name=x; scontrol release 1; squeue -h -j $id -o %j"
    ),
    Line("sacct -n -j 1"),
    Line("scancel 1; scancel -v 1; scancel; scancel abc"),
    Line("id=$(sbatch -H --parsable job.sh); scancel -v $id; squeue -h -j $id"),
    Line("id=$(sbatch -H --parsable job.sh); scancel -i $id; squeue -h -j $id -o %T", b"n\n"),
    Line("id=$(sbatch -H --parsable job.sh); scancel -i $id; squeue -h -j $id -o %T", b"y\n"),
]
_RUNNING = [
    Line("srun --version"),
    Line("srun"),
    Line("srun -n1 true"),
    Line("srun -w node1 -n1 bash -c 'exit 7'"),
    Line("srun -w node1 -n1 bash -c 'kill -9 $$'"),
    Line("srun -n1 bash -c 'echo out; echo err >&2'"),
    Line("srun -n3 -l echo x", any_order=True),
    Line("srun -n1 cat", b"through\nsrun\n"),
    Line("srun -n1 cat | cksum", BLOB),
    Line("srun -n1 cat blob | cksum"),
    Line("srun -n1 cat blob"),
    Line("srun -n1 head -c 1000 blob"),
    Line("srun -n1 head -c 100000 blob | head -c 10 | cksum"),
    Line("srun -n1 -i none cat; srun -n1 -o o.txt echo to a file; cat o.txt"),
    Line("srun -n1 printf 'no newline'"),
    Line("srun -n1 printenv LANG; srun -n1 --export=A=5 /usr/bin/printenv A"),
    Line("srun -n1 pwd | grep -c /work$"),
    Line("srun -p nosuch true"),
    Line("srun --jobid=1 true"),
    Line("salloc -n1 true"),
    Line("salloc -n1 bash -c 'exit 5'"),
    Line("salloc -n2 bash -c 'srun -l echo step; squeue -h -j $SLURM_JOB_ID -o %T'", any_order=True),
    Line("salloc -n1 cat", b"to the command\n"),
    Line("salloc -n1 nosuchcommand"),
    Line("salloc -p nosuch true"),
    Line("salloc -Q -N2 bash -c 'echo $SLURM_NNODES'"),
    Line("salloc -n1 --no-shell 2>&1 | tee said; scancel $(grep -o '[0-9]*$' said)"),
    Line("salloc -n1", b"echo in the shell; exit 6\n"),
]
_INTERACTIVE: list[Case] = [
    Terminal("srun -n1 --pty bash --norc", ((b"$ ", b"tty -s && echo a terminal\n"), (b"a terminal\r\n", b"exit 3\n"))),
    Terminal("srun -n1 --pty stty size"),
    Terminal("srun -n1 cat", ((b"", b"typed\n"), (b"typed\r\n", b"\x04"))),
    Terminal("salloc -Q -n1 bash --norc", ((b"$ ", b"echo $SLURM_NTASKS tasks\n"), (b"1 tasks\r\n", b"exit 2\n"))),
    Terminal(
        "salloc -Q -n1", ((b"$ ", b"test -t 0 && test -t 2 && echo on a terminal\n"), (b"on a terminal\r\n", b"exit\n"))
    ),
    Terminal("scontrol", ((b"scontrol: ", b"show hostnames n[1-2]\n"), (b"n2\r\n", b"quit\n"))),
    Terminal("scancel -i 1"),
    Terminal("squeue -h -n nosuch; sinfo -h -p gpu; tty -s; echo $?"),
    Terminal("sbatch -H --wrap true"),
    Terminal("srun -n1 sleep 60", ((b"", b"\x03"), (b"running", b"\x03"))),
    Signalled("srun -Q -w node1 -n1 bash -c 'touch ready; sleep 60'", (signal.SIGINT, signal.SIGINT)),
    Signalled("srun -Q -w node1 -n1 bash -c 'touch ready; sleep 60'", (signal.SIGTERM,)),
    Signalled(
        "srun -Q -w node1 -n1 bash -c 'trap \"echo got it; exit 8\" USR1; touch ready; while :; do sleep 0.1; done'",
        (signal.SIGUSR1,),
    ),
    Signalled("salloc -Q -n1 bash -c 'touch ready; sleep 1; exit 4'", (signal.SIGUSR1,)),
    Signalled("salloc -Q -n1 bash -c 'touch ready; sleep 1; exit 4'", (signal.SIGTERM,)),
    Signalled("salloc -Q -n1 bash -c 'touch ready; sleep 60'", (signal.SIGHUP,)),
    Signalled("sbatch --wait -Q -o none --wrap 'touch ready; sleep 60'", (signal.SIGTERM,)),
    Signalled("sbatch --wait -Q -o none --wrap 'touch ready; sleep 60'", (signal.SIGINT,)),
]
CASES: list[Case] = [*_SUBMITTING, *_ASKING, *_RUNNING, *_INTERACTIVE]
