"""The options of the commands that look or act on jobs: squeue, scancel, sinfo, scontrol, sacct (22.05), in Slurm's order.

A row is "long short arity variable…": arity is ``-`` (flag), ``=`` (required) or ``?`` (only as ``--opt=value``); a short option
that does not exist is ``-``. Rows of one field are spellings of one option: ``jobs|job``.
"""

from __future__ import annotations

from shim.core.options.option import FLAG, OPTIONAL, REQUIRED, Option, Table

_ARITY = {"-": FLAG, "=": REQUIRED, "?": OPTIONAL}

_SQUEUE = """
accounts A = SQUEUE_ACCOUNT
all a - SQUEUE_ALL
array r - SQUEUE_ARRAY
array-unique - - SQUEUE_ARRAY_UNIQUE
Format O = SQUEUE_FORMAT2
format o = SQUEUE_FORMAT
federation - - SQUEUE_FEDERATION
help - -
hide - -
iterate i =
jobs j ?
json - ?
local - - SQUEUE_LOCAL
long l -
licenses L = SQUEUE_LICENSES
clusters|cluster M =
clusters M = SLURM_CLUSTERS
me - -
name n = SQUEUE_NAMES
noconvert - -
nodelist|node w =
nodelist|nodes w =
nodelist w =
noheader h -
partitions p = SQUEUE_PARTITION
priority P - SQUEUE_PRIORITY
qos q = SQUEUE_QOS
reservation R =
sibling|sib - - SQUEUE_SIB
sibling - - SQUEUE_SIBLING
sort S = SQUEUE_SORT
start - -
steps s ?
states t = SQUEUE_STATES
usage - -
users|user u =
users u = SQUEUE_USERS
verbose v -
version V -
yaml - ?
"""

_SCANCEL = """
account A = SCANCEL_ACCOUNT
batch b - SCANCEL_BATCH
ctld - - SCANCEL_CTLD
full f - SCANCEL_FULL
help - -
hurry H - SCANCEL_HURRY
interactive i - SCANCEL_INTERACTIVE
clusters|cluster M =
clusters M = SLURM_CLUSTERS
name|jobname n =
me - -
name n = SCANCEL_NAME
nodelist w =
partition p = SCANCEL_PARTITION
qos q = SCANCEL_QOS
quiet Q -
reservation R =
sibling - =
signal s =
state t = SCANCEL_STATE
usage - -
user u = SCANCEL_USER
verbose v - SCANCEL_VERBOSE
version V -
wckey - = SCANCEL_WCKEY
"""

_SINFO = """
all a - SINFO_ALL
dead d -
exact e -
federation - - SINFO_FEDERATION
help - -
hide - -
iterate i =
json - ?
local - - SINFO_LOCAL
long l -
clusters|cluster M =
clusters M = SLURM_CLUSTERS
nodes n =
noconvert - -
noheader h -
Node N -
format o = SINFO_FORMAT
Format O =
partition p = SINFO_PARTITION
responding r -
list-reasons R -
summarize s -
sort S = SINFO_SORT
states t =
reservation T -
usage - -
verbose v -
version V -
yaml - ?
"""

_SCONTROL = """
all a - SCONTROL_ALL
clusters|cluster M =
clusters M = SLURM_CLUSTERS
details d -
federation - - SCONTROL_FEDERATION
future F - SCONTROL_FUTURE
help h -
hide - -
local - - SCONTROL_LOCAL
oneliner o -
quiet Q -
sibling - - SCONTROL_SIB SCONTROL_SIBLING
uid u =
usage h -
verbose v -
version V -
"""

_SACCT = """
allusers a -
accounts A =
allocations X -
brief b -
batch-script B -
completion c -
constraints C =
delimiter - =
duplicates D -
federation - - SACCT_FEDERATION
helpformat e -
helpformat|help-fields e -
endtime E =
env-vars - -
file f =
flags F =
gid g =
gid|group g =
help h -
local - - SACCT_LOCAL
name - =
nnodes i =
ncpus I =
jobs j =
timelimit-min k =
timelimit-max K =
long l -
allclusters L -
clusters|cluster M =
clusters M =
nodelist N =
noconvert - -
units - =
noheader n -
format|fields o =
format o = SACCT_FORMAT
parsable p -
parsable2 P -
qos q =
partition r =
reason - =
state s =
starttime S =
truncate T -
user|uid u =
use-local-uid - -
usage U -
user u =
verbose v -
version V -
wckeys W =
whole-hetjob - ?
associations x =
json - ?
yaml - ?
"""

# Options that may be given several times, and then mean all that was said; of the others the last one counts.
ADD_UP = {"sacct": "accounts associations constraints format gid jobs name partition qos reason state user wckeys"}

_TEXTS = {"sacct": _SACCT, "squeue": _SQUEUE, "scancel": _SCANCEL, "sinfo": _SINFO, "scontrol": _SCONTROL}


def options_of(command: str) -> Table:
    """The table of ``command`` (squeue, scancel, sinfo, scontrol, sacct), in Slurm's order."""
    return Table(_option(row) for row in _TEXTS[command].strip().split("\n"))


def _option(row: str) -> Option:
    names, short, arity, *env = row.split()
    field, _, long = names.partition("|")
    return Option(long or field, "" if short == "-" else short, _ARITY[arity], "text", env, field)
