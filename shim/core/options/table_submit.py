"""Every option of sbatch, srun and salloc, in the order in which Slurm's messages list them (22.05: measured).

A row is "long short arity commands kind variable…". Arity: ``-`` (flag), ``=`` (required), ``?`` (only as ``--opt=value``); a
missing short option is ``-``. Commands: b sbatch, r srun, a salloc. ``field|long`` is another spelling of ``field``. A
variable is ``br:NAME``: SBATCH_NAME for sbatch and SLURM_NAME for srun (a: SALLOC_NAME); ``ba:!NAME`` is NAME itself. Of
several variables the last one set wins.

A row or a variable that begins with ``+`` is there at the level 25.11 only, one with ``-`` at 22.05 only; the places of the
newer ones among the others are not measured. The table is complete on purpose: with a name missing, abbreviations would
resolve to something else than on Slurm.
"""

from __future__ import annotations

from shim.core.options.option import FLAG, OPTIONAL, REQUIRED, Option, Table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Optional, Tuple

    from shim.core.options.grammar import Grammar

ROWS = """
accel-bind - = r accel-bind
account A = bra text bra:ACCOUNT
acctg-freq - = bra acctg-freq bra:ACCTG_FREQ
array a = b text b:ARRAY_INX
+async - - r flag
+autocomplete - = bra autocomplete
batch - = b text b:BATCH
bcast - ? r text r:BCAST
bcast-exclude - = r text r:BCAST_EXCLUDE
begin b = bra when
bell - - a flag a:BELL
bb - = bra text bra:BURST_BUFFER
bbf - = bra text
cluster-constraint - = bra text bra:CLUSTER_CONSTRAINT
chdir D = bra path r:REMOTE_CWD r:WORKING_DIR
cluster - = bra text
clusters M = bra text ba:!SLURM_CLUSTERS bra:CLUSTERS
comment - = bra text
compress - ? r compress r:COMPRESS
+consolidate-segments - - bra flag bra:CONSOLIDATE_SEGMENTS
container - = bra text ba:CONTAINER r:!SRUN_CONTAINER
+container-id - = bra text ba:CONTAINER_ID r:!SRUN_CONTAINER_ID
+container-type - = bra text ba:CONTAINER_TYPE r:!SRUN_CONTAINER_TYPE
context - = bra text
contiguous - - bra flag
constraint C = bra text bra:CONSTRAINT
core-spec S = bra natural bra:CORE_SPEC
cores-per-socket - = bra count r:NCORES_PER_SOCKET
cpu-bind - = r cpu-bind r:CPU_BIND
cpu-bind|cpu_bind - = r cpu-bind
cpu-freq - = bra cpu-freq bra:CPU_FREQ_REQ
cpus-per-gpu - = bra count bra:CPUS_PER_GPU
cpus-per-task c = bra count -r:!SRUN_CPUS_PER_TASK +r:CPUS_PER_TASK
deadline - = bra when
debugger-test - - r flag
delay-boot - = bra boot-delay bra:DELAY_BOOT
dependency d = bra text r:DEPENDENCY
disable-status X - r flag r:DISABLE_STATUS
distribution m = bra distribution br:DISTRIBUTION
epilog - = r text r:EPILOG
error e = br file b:ERROR r:STDERRMODE +r:!SRUN_ERROR
exact - - r flag r:EXACT
exclude x = bra hosts
exclusive - ? bra exclusive bra:EXCLUSIVE
export - = br text b:EXPORT r:EXPORT_ENV r:!SRUN_EXPORT_ENV
export-file - = b text
+external - - b flag
+external-launcher - ? r text r:EXTERNAL_LAUNCHER
+extra - = bra text
extra-node-info B = bra geometry
-get-user-env - ? ba user-env b:GET_USER_ENV
+get-user-env - - b flag b:GET_USER_ENV
-gid - = bra root
+gid - = b root
gpu-bind - = bra gpu-bind bra:GPU_BIND
gpu-freq - = bra gpu-freq bra:GPU_FREQ
gpus G = bra text bra:GPUS
gpus-per-node - = bra text bra:GPUS_PER_NODE
gpus-per-socket - = bra text bra:GPUS_PER_SOCKET
gpus-per-task - = bra text bra:GPUS_PER_TASK
gres - = bra gres bra:GRES
-gres-flags - = bra gres-flags bra:GRES_FLAGS
+gres-flags - = bra gres-flags-new bra:GRES_FLAGS
help h - bra flag
het-group - = r text
hint - = bra text ba:!SLURM_HINT bra:HINT
hold H - bra flag
ignore-pbs - - b flag b:IGNORE_PBS
+ignore-signals - = r signals
immediate I ? ra seconds ra:IMMEDIATE
input i = br file b:INPUT r:STDINMODE +r:!SRUN_INPUT
interactive - - r flag
jobid - = r count r:JOB_ID
job-name J = bra text br:JOB_NAME
kill-command K ? a signal-name a:KILL_CMD
kill-on-bad-exit K ? r switch r:KILL_BAD_EXIT
kill-on-invalid-dep - = b yes-no
label l - r flag r:LABELIO
licenses L = bra text
mail-type - = bra mail
mail-user - = bra text
threads T = r threads r:THREADS
mcs-label - = bra text
mem - = bra memory bra:MEM_PER_NODE
mem-bind - = bra mem-bind bra:MEM_BIND
mem-per-cpu - = bra memory bra:MEM_PER_CPU
mem-per-gpu - = bra memory bra:MEM_PER_GPU
+mem-update - = bra text
mincpus - = bra count
mpi - = r mpi r:MPI_TYPE
msg-timeout - = r count
multi-prog - - r flag r:SRUN_MULTI
network - = bra text bra:NETWORK
nice - ? bra nice
no-allocate Z - r flag
no-bell - - a flag a:NO_BELL
no-kill k ? bra no-kill bra:NO_KILL
no-requeue - - b flag b:NO_REQUEUE
no-shell - - a flag
nodefile F = bra text
nodelist w = bra hosts
nodes N = bra nodes r:JOB_NUM_NODES
ntasks n = bra count r:NPROCS r:NTASKS
ntasks-per-core - = bra count +r:NTASKS_PER_CORE
ntasks-per-gpu - = bra count r:NTASKS_PER_GPU
ntasks-per-node - = bra count r:NTASKS_PER_NODE
ntasks-per-socket - = bra count
ntasks-per-tres - = bra count r:NTASKS_PER_TRES
+oom-kill-step - ? bra switch r:OOM_KILL_STEP
open-mode - = br open-mode br:OPEN_MODE
output o = br file b:OUTPUT r:STDOUTMODE +r:!SRUN_OUTPUT
overcommit O - bra flag bra:OVERCOMMIT
overlap - ? r set r:OVERLAP
oversubscribe s - bra flag
het-group|pack-group - = r text
-parsable - - b flag
+parsable - - br flag
partition p = bra text bra:PARTITION
-power - = bra power bra:POWER
prefer - = bra text
preserve-env E - r flag
priority - = bra priority
profile - = bra profile bra:PROFILE
prolog - = r text r:PROLOG
propagate - ? br all
-pty - - r flag
+pty - ? r flag
qos q = bra text bra:QOS
quiet Q - bra flag
quit-on-interrupt - - r flag
reboot - - bra flag
relative r = r natural
-requeue - - b flag b:REQUEUE
+requeue - ? b requeue b:REQUEUE
reservation - = bra text bra:RESERVATION
+resources - = bra text
-resv-ports - ? r ports r:RESV_PORTS
+resv-ports - ? bra ports r:RESV_PORTS
+segment - = bra count ba:SEGMENT_SIZE r:!SRUN_SEGMENT_SIZE
send-libs - ? r yes-no r:SEND_LIBS
signal - = b signal b:SIGNAL
signal - = ra step-signal ra:SIGNAL
slurmd-debug - = r text r:!SLURMD_DEBUG
sockets-per-node - = bra count r:NSOCKETS_PER_NODE
spread-job - - bra flag bra:SPREAD_JOB
+spread-segments - - bra flag bra:SPREAD_SEGMENTS
+stepmgr - - bra flag
switches - = bra switches bra:REQ_SWITCH
task-epilog - = r text r:TASK_EPILOG
task-prolog - = r text r:TASK_PROLOG
ntasks-per-node|tasks-per-node - = bra count
test-only - - br flag
thread-spec - = bra count bra:THREAD_SPEC
threads-per-core - = bra count bra:THREADS_PER_CORE
time t = bra minutes bra:TIMELIMIT
time-min - = bra minutes
tmp - = bra memory
+treewidth - = r text
+tres-bind - = bra text bra:TRES_BIND
+tres-per-task - = bra tres-per-task bra:TRES_PER_TASK
-uid - = bra root
+uid - = b root
unbuffered u - r flag r:UNBUFFEREDIO
use-min-nodes - - bra flag bra:USE_MIN_NODES
verbose v - bra level bra:DEBUG
version V - bra flag
usage - - bra flag
wait W - b flag b:WAIT
wait W = r natural r:WAIT
wait-all-nodes - = ba binary ba:WAIT_ALL_NODES
+wait-for-children - - r flag
wckey - = bra text bra:WCKEY
whole - - r flag
wrap - = b text
x11 - ? ra text
"""

_ARITY = {"-": FLAG, "=": REQUIRED, "?": OPTIONAL}
_LETTER = {"sbatch": "b", "srun": "r", "salloc": "a"}
_PREFIX = {"b": "SBATCH_", "r": "SLURM_", "a": "SALLOC_"}
_built: Dict[Tuple[str, Optional[Grammar]], Table] = {}


def options_of(command: str, grammar: Optional[Grammar] = None) -> Table:
    """The options that ``command`` (sbatch, srun, salloc) takes at a site, in Slurm's order; None: one with nothing configured."""
    table = _built.get((command, grammar))
    if table is None:
        letter = _LETTER[command]
        options = read_rows(ROWS, letter, grammar is not None and grammar.newer)
        if grammar is not None:
            from shim.core.options.plugins import PYXIS, with_plugins

            pyxis = read_rows(PYXIS, letter, True) if grammar.pyxis else []
            options = with_plugins(options + pyxis, grammar)
        table = _built[command, grammar] = Table(options)
    return table


def read_rows(rows: str, letter: str, newer: bool) -> List[Option]:
    """The options of rows in the table's form: those of the command ``letter`` at the older or the newer level."""
    options = []
    other = "-" if newer else "+"
    for row in rows.strip().split("\n"):
        names, short, arity, commands, rest = row.split(" ", 4)
        if letter not in commands or names[0] == other:
            continue
        kind, _, words = rest.partition(" ")
        variables = _variables(words, letter, other) if words else ()
        field, bar, long = names.lstrip("+-").partition("|")
        options.append(
            Option(long if bar else field, "" if short == "-" else short, _ARITY[arity], kind, variables, field)
        )
    return options


def _variables(words: str, letter: str, other: str) -> Tuple[str, ...]:
    prefix = _PREFIX[letter]
    return tuple(
        [
            name[1:] if name[0] == "!" else prefix + name
            for commands, name in [word.split(":") for word in words.split(" ")]
            if letter in commands and commands[0] != other
        ]
    )
