"""What commands and the controller say to each other.

A unix stream socket (0600, the peer's uid is checked on both sides). A message is a 4-byte big-endian length and that many
bytes of JSON. A client sends one request and reads replies until one has ``"ok"``; before it there may be events.

    request   {"protocol": 1, "op": "submit", …}
    event     {"event": "queued", …}
    reply     {"ok": true, …}  or  {"ok": false, "lines": ["error: …"], "code": 1}   (a ShimError)

What depends on the configuration (OF_CONFIGURATION) says in ``configuration`` where the command has it from: its SHIM_* variables and
XDG_CONFIG_HOME. A controller that finds another one there than its own begins anew, and gets the request again. ``kubeconfig``: the command's
KUBECONFIG, for clusters that could not be opened by the controller's own.

submit, allocate, attach, wait and fetch may say ``progress`` (bool): then events {"event": "progress", "what", "unit", "all", "done"} come while
they take long (the client is on a terminal). Clients pass over events that they do not know.

Byte strings (scripts, environment) travel as text decoded with ``surrogateescape``. Operations and their fields:

    ping                                   -> pid, started (epoch), version
    stats     reset (bool)                 -> what was counted since when: jobs, passes of the scheduler, operations, users (counting.py)
              reset -> (everything is counted anew; operators)
    submit    request (JobRequest), environment {name: value}, script (text or null), token, submit_line, submit_host, sid,
              rlimits {name: [soft, hard]}, test_only (bool), cluster (name or null)
                                           -> job_id, cluster, notes [lines for stderr, as after "sbatch: "]
              The same token twice answers the same job id: a client that lost its connection asks again.
              test_only -> start (epoch), processors, nodes (hostlist), partition
    allocate  the fields of submit, and keep (bool: --no-shell)
              events  {"event": "submitted", "job_id", "notes"}, {"event": "queued", "job_id"},
                      {"event": "granted", "job": Job, "environment": {…}, "run_dir": …, "reach": {…}},
                      {"event": "revoked", "state", "reason"}, {"event": "notice", "text"} (of scontrol notify)
              The connection is the allocation's life: when it closes (and keep is false), the job ends. reply ok comes
              at the job's end: state, exit_status. A client whose controller died sends ``attach``.
    attach    job_id, token                -> as allocate, from its present state
    release   job_id, status (raw wait)    -> ends an allocation (salloc's command ended)
    wait      job_id                       -> state, exit_status, restarts   (at the end of the job; of an array: the worst)
    reach     job_id                       -> job (Job), run_dir, cluster   (srun --jobid: where the leader is)
    cancel    targets [{job_id, task (array task id | null), step (text | null)}], signal (number | null), scope
              ("default" | "batch" | "full"), uid  -> results [{target, error (Slurm's text | null)}],
                                              ordered [clusters whose running jobs something was ordered of; so below]
    hold, release_job, requeue, requeuehold, suspend, resume, top
              targets                      -> results
    update    targets, fields {canonical scontrol name: text}  -> results, with ``why`` (a line in front of the error) for some
    notify  target, text  -> (the text is a line of the error output of that job's script, or of its salloc or srun)
    update_step  target, minutes (below 0: none)  -> (the time limit of that step, or of all of the job's)
    change_nodes  name (host list, ALL), fields {State, Reason, Weight, Features, Comment, Extra}  (operators)
    change_partition  name, fields {of a Partition}  (operators)
    record    job (Job), claim (bool)     -> a job that a real Slurm took is kept in the index; ``taken`` if it was claimed and has a row
    seen      jobs (Jobs)                  -> what their Slurm has told of such jobs since
    script    job_id                       -> script (text)
    fetch     job_id                       -> files, bytes (what came back of a running job's copy of its working directory), text (what did not), ended
    look      question, and what it asks for  -> answer (what an operator's listing would have read in the index: looking.py); of jobs
              events  {"event": "jobs", "jobs": [Job, …]}
    site                                   -> clusters [Cluster, the default one first], grammar
    listen    clusters [names, none for all]  -> (troubles of these clusters are in the index: they were asked if nothing was heard lately)
    reconfigure                            -> kept [what stays as it was for active jobs]
    prune     days (null: as configured), dry_run (bool)  -> jobs (how many went, or would), before (epoch: those that ended earlier)
    crontab   do ("get" | "remove")        -> text (null: there is no table)
    set_crontab  text, entries [{first, last (lines), and the fields of submit}]
                                           -> text; refused {first, last, lines} where an entry's job was
    trigger   do ("set" | "get" | "clear"), trigger (Trigger), id, job_id, uid (of those to clear)
                                           -> triggers [Trigger]
    shutdown  now (bool)                   -> (the controller ends; running jobs go on)
"""

from __future__ import annotations

PROTOCOL = 1
OF_CONFIGURATION = (
    "submit",
    "allocate",
    "move",
    "update",
    "set_crontab",
    "change_nodes",
    "change_partition",
    "reconfigure",
)
# What an operator who is neither the owner nor root may ask for (operators.py).
FOR_OPERATORS = (
    *(
        "ping",
        "cancel",
        "hold",
        "release_job",
        "requeue",
        "requeuehold",
        "suspend",
        "resume",
        "top",
        "update",
        "update_step",
    ),
    *("notify", "change_nodes", "change_partition", "reconfigure", "crontab", "look", "site", "stats"),
)
MAX_MESSAGE = 64 * 1024 * 1024
