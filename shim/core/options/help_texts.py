"""What help texts say of each option: the name of its value, a bar, and what it does. By field; data only."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict

_SUBMIT = """
accel-bind options|bind tasks to nearby accelerators
account name|the account to charge
acctg-freq intervals|how often usage is sampled
array indexes|run the script once for each index
batch features|features of the batch script's node
bb spec|burst buffer wanted
bbf file|burst buffer wanted, described in a file
bcast path|copy the program to the nodes first
bcast-exclude paths|libraries not to copy with --bcast
begin time|do not start before this time
bell |ring the terminal's bell when the job starts
chdir directory|where the job runs
cluster names|the same as --clusters
cluster-constraint list|features of clusters in a federation
clusters names|the cluster to use
comment text|any text, shown with the job
compress library|compress what --bcast copies
constraint list|features the nodes must have
container bundle|OCI bundle to run
context text|SELinux context
contiguous |neighbouring nodes only
core-spec count|cores set aside for the system
cores-per-socket count|cores each socket must have at least
cpu-bind way|bind tasks to CPUs
cpu-freq range|CPU frequency or governor
cpus-per-gpu count|CPUs for each GPU
cpus-per-task count|CPUs for each task
deadline time|drop the job if it cannot end by then
debugger-test |for debuggers only
delay-boot minutes|wait before nodes are booted
dependency list|other jobs to wait for, as type:id[:id...]
disable-status |pass on the first Ctrl-C
distribution way|how tasks go to nodes: block, cyclic, plane=n, arbitrary
epilog program|run once after the step
error file|file for standard error
exact |give the step only what it asks for
exclude hosts|nodes not to use
exclusive kind|share no node with other jobs
export names|variables that the job gets: ALL, NONE, names, name=value
export-file file|file with the job's variables
extra-node-info S[:C[:T]]|sockets, cores and threads in one word
get-user-env timeout|use the user's login environment
gid group|group of the job (root only)
gpu-bind way|which GPUs a task sees
gpu-freq values|frequency of GPUs
gpus [type:]count|GPUs of the whole job
gpus-per-node [type:]count|GPUs on each node
gpus-per-socket [type:]count|GPUs on each socket
gpus-per-task [type:]count|GPUs for each task
gres list|generic resources on each node, as name[:type]:count
gres-flags flags|how generic resources are given out
help |this text
het-group groups|components of a heterogeneous job
hint kind|what kind of program it is
hold |submit held; wait to be released
ignore-pbs |do not read #PBS and #BSUB lines
immediate seconds|give up unless resources are free by then
input file|file for standard input
interactive |a mark for interactive steps
job-name name|name of the job
jobid id|run in this job's allocation
kill-command signal|end the command with the allocation
kill-on-bad-exit 0|1|end the step when one task fails
kill-on-invalid-dep yes|no|cancel the job if its dependency cannot be met
label |task numbers in front of output lines
licenses names|licences wanted, as name[:count]
mail-type types|when to send mail: BEGIN, END, FAIL, ALL...
mail-user user|whom to send mail
mcs-label label|label of the job's security group
mem size|memory on each node, in MB or with K, M, G, T
mem-bind way|bind memory
mem-per-cpu size|memory for each CPU
mem-per-gpu size|memory for each GPU
mincpus count|CPUs each node must give at least
mpi type|kind of MPI start-up: none, list
msg-timeout seconds|time limit of messages
multi-prog |the program is a file that names one for each task
network kind|settings of the network
nice value|lower the job's priority
no-allocate |run without an allocation (administrators)
no-bell |do not ring the terminal's bell
no-kill off|keep the job when a node fails
no-requeue |never start the job a second time
no-shell |allocate and return at once
nodefile file|file that names the nodes to use
nodelist hosts|nodes the job must have
nodes min[-max]|number of nodes
ntasks count|number of tasks
ntasks-per-core count|at most this many tasks on a core
ntasks-per-gpu count|tasks for each GPU
ntasks-per-node count|tasks on each node
ntasks-per-tres count|tasks for each GPU
ntasks-per-socket count|at most this many tasks on a socket
open-mode append|truncate|what to do with output files that exist
output file|file for standard output
overcommit |more than one task for a CPU
overlap |share resources with other steps
oversubscribe |nodes may be shared with other jobs
parsable |print the id (and cluster) only
partition names|partition, or several of which one will do
power flags|power management
prefer list|features wanted if they can be had
preserve-env |tasks get SLURM_NTASKS, SLURM_NNODES and the like as srun has them
priority value|priority of the job (administrators)
profile kinds|what to sample in detail
prolog program|run once before the step
propagate limits|resource limits to take along: ALL, NONE, names
pty |give task 0 a terminal
qos name|quality of service
quiet |say less
quit-on-interrupt |end at the first Ctrl-C
reboot |boot the nodes first (administrators)
relative node|first node of the step, counted in the allocation
requeue |the job may be started a second time
reservation name|use this reservation
resv-ports count|reserve communication ports
send-libs yes|no|copy libraries with --bcast
signal [[R][B]:]signal[@seconds]|send a signal before the time limit
slurmd-debug level|messages of the node's daemon
sockets-per-node count|sockets each node must have at least
spread-job |use as many nodes as possible
switches count[@time]|at most this many switches
task-epilog program|run after each task
task-prolog program|run before each task
test-only |say when the job would start, submit nothing
thread-spec count|threads set aside for the system
threads count|how many connections at once
threads-per-core count|threads each core must have at least
time time|time limit: minutes, h:m:s, d-h:m:s
time-min time|a shorter limit that would do
tmp size|temporary disk on each node
uid user|user of the job (root only)
unbuffered |pass output on at once
usage |the options in brief
use-min-nodes |the fewest nodes of a range
verbose |say more; several times for still more
version |print the version
wait seconds|end the step so long after its first task
wait-all-nodes 0|1|start when all nodes are ready
wckey key|workload key
whole |give the step whole nodes
wrap command|submit a command instead of a script
x11 kind|forward X11
"""

_NEWER = """
async |do not wait for the step
autocomplete text|print the options that begin so
consolidate-segments |segments on as few blocks as possible
container-id id|OCI container of that name
container-type kind|how OCI containers are started
external |a job that runs elsewhere
external-launcher kind|a step for the daemons of another launcher
extra text|any text, shown with the job
ignore-signals signals|signals that srun does not pass on
mem-update size|change the memory while the job runs
oom-kill-step 0|1|end the whole step when a task has too much memory
resources list|resources of other kinds
segment count|nodes of a block that belong together
spread-segments |each segment on a block of its own
stepmgr |the job manages its steps itself
treewidth count|how many nodes are told at once
tres-bind list|which resources a task sees, as gres/gpu:way
tres-per-task list|resources of each task, as cpu=n,gres/gpu=n
wait-for-children |the step ends with the last process, not the last task
"""

_PYXIS = """
container-image image|image of the container, or a squashfs file
container-mounts list|mounts, as src:dst[:flags][,...]
container-workdir path|working directory in the container
container-name name|name under which the container is kept
container-save path|save the container as a squashfs file
container-mount-home |mount the home directory
no-container-mount-home |do not mount the home directory
container-remap-root |be root in the container
no-container-remap-root |be oneself in the container
container-entrypoint |run the image's entry point
no-container-entrypoint |do not run the image's entry point
container-entrypoint-log |show what the entry point prints
container-writable |the container can be written
container-readonly |the container cannot be written
container-env names|variables of the job that win over the image's
"""

_QUERY = """
Format fields|columns by name, as name[:width],...
Node |one line for each node
account names|only jobs of these accounts
accounts names|only jobs of these accounts
all |hidden partitions too
array |one line for each task of an array
array-unique |one line for each task of an array
batch |signal the batch shell only
ctld |let the controller do the selection
dead |only nodes that do not respond
details |more of each record
exact |do not group nodes
federation |all clusters of the federation
format letters|columns, as %[[.]width]letter...
full |signal the batch shell and all steps
future |nodes that do not exist yet too
hide |no hidden partitions
hurry |no stage-out
interactive |ask before each job
iterate seconds|say it again and again
jobs ids|only these jobs
json |JSON output
licenses names|only jobs with these licences
list-reasons |why nodes are down or drained
local |this cluster only
long |more columns
me |only jobs of the caller
name names|only jobs with these names
noconvert |do not shorten amounts
nodelist hosts|only jobs on these nodes
nodes hosts|only these nodes
noheader |no header
oneliner |one line for each record
partition names|only these partitions
partitions names|only these partitions
priority |one line for each partition of a pending job
qos names|only jobs of these QOS
reservation name|only this reservation
responding |only nodes that respond
sibling name|jobs of other clusters too
signal signal|signal to send
sort fields|order of the lines
start |when pending jobs are expected to start
state states|only jobs in these states
states states|only these states
steps ids|steps instead of jobs
summarize |one line for each partition
uid user|act as this user
user names|only jobs of these users
users names|only jobs of these users
wckey key|only jobs with this key
yaml |YAML output
"""


def of_slurm() -> Dict[str, str]:
    """The options of sbatch, srun and salloc that are Slurm's own, of every level."""
    return _table(_SUBMIT + _NEWER)


def _table(text: str) -> Dict[str, str]:
    result = {}
    for row in filter(None, text.split("\n")):
        field, _, rest = row.partition(" ")
        value, bar, what = rest.rpartition("|")
        result[field] = f"{value}{bar}{what}"
    return result


# Where a query command means something else by a name than the three submitting commands do.
_SACCT = """
allclusters |jobs of all clusters
allocations |no steps
allusers |jobs of all users
associations ids|only jobs of these associations
batch-script |the scripts of the jobs that --jobs names
brief |job, state and exit code only
completion |the data of job completion
constraints list|only jobs that asked for these features
delimiter text|what separates fields with -p and -P
duplicates |the runs before a requeue too
endtime time|only jobs before this time
env-vars |the environments of the jobs that --jobs names
file file|the data of job completion from this file
flags list|only jobs that were scheduled in this way
format fields|columns, as name[%[-]width],...
gid groups|only jobs of these groups
helpformat |the names of all fields
ncpus min[-max]|only jobs with so many CPUs
nnodes min[-max]|only jobs with so many nodes
noconvert |do not change units
parsable |fields with a delimiter behind each
parsable2 |fields with a delimiter between them
reason list|only jobs that waited for these reasons
starttime time|only jobs after this time; today unless said
state states|only jobs that were in these states
timelimit-max time|the longest time limit, with -k
timelimit-min time|only jobs with this time limit
truncate |cut times at the ends of the window
units unit|sizes in K, M, G, T or P
use-local-uid |uids as this machine has them
wckeys keys|only jobs with these keys
whole-hetjob yes|no|all parts of heterogeneous jobs
"""

_OWN = {
    "sbatch": {"wait": "|wait until the job has ended"},
    "scontrol": {"all": "|hidden records too"},
    "sinfo": {"reservation": "|reservations instead of nodes"},
    "sacct": _table(_SACCT),
}


def texts(command: str) -> Dict[str, str]:
    """``value|what it does`` of each option of ``command``, by field."""
    submits = command in ("sbatch", "srun", "salloc")
    said = _table(_SUBMIT + _NEWER + _PYXIS)
    both = {**_table(_QUERY), **said} if submits else {**said, **_table(_QUERY)}
    both.update(_OWN.get(command, {}))
    return both
