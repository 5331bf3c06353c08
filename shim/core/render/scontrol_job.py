"""``scontrol show job`` and ``scontrol show step``: one record as lines of ``Key=value``."""

from __future__ import annotations

from shim.core.formats import hostlist
from shim.core.formats.cpu_freq import show_cpu_freq
from shim.core.formats.lists import fold_ranks
from shim.core.formats.times import parse_seconds_any, show_clock
from shim.core.formats.tres import show_gpus_field
from shim.core.model import states
from shim.core.model.request import INFINITE
from shim.core.render import job_facts as facts
from shim.core.render.job_fields import accrue_time, requeues, show_memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.core.model.job import Job, NodeShare, Step
    from shim.core.model.request import JobRequest
    from shim.core.render.view import View


def join_record(lines: list[str], oneliner: bool) -> str:
    """The record's lines as scontrol lays them out: one below the other, or all in one line."""
    return " ".join(lines) if oneliner else "\n   ".join(lines)


def _reason(job: Job) -> str:
    """Its words are joined, for scripts that take the record apart at blanks; squeue has them as they are."""
    return job.reason.replace(" ", "_")


def job_record(job: Job, view: View, *, details: bool = False, oneliner: bool = False) -> str:
    """The whole record, with the blank line (``oneliner``: the blank) that ends it."""
    lines = [
        _title(job),
        *([f"HetJobIdSet={facts.het_ids(job)}"] if job.het_job_id else []),
        f"UserId={job.user or job.uid}({job.uid}) GroupId={job.group or job.gid}({job.gid}) MCS_label=N/A",
        f"Priority={job.priority} Nice={job.request.nice} Account={_said(job.request.account)}"
        f" QOS={facts.or_null(job.request.qos)}",
        f"JobState={job.shown_state} Reason={_reason(job)} Dependency={facts.or_null(job.dependency)}",
        f"Requeue={int(requeues(job, view))} Restarts={job.restarts} BatchFlag={int(_is_batch(job))} Reboot=0"
        f" ExitCode={facts.exit_code(job.exit_status)}",
        *([f"DerivedExitCode={facts.exit_code(job.derived_status)}"] if details else []),
        *_times(job, view),
        f"Partition={job.partition} AllocNode:Sid={job.submit_host or 'localhost'}:{job.alloc_sid}",
        f"ReqNodeList={_hosts(job.request.node_list)} ExcNodeList={_hosts(job.request.exclude)}",
        f"NodeList={facts.nodelist(job)}",
        *([f"BatchHost={job.shares[0].name}"] if _on_nodes(job) else []),
        *_sizes(job, view),
        *(_layout(job, oneliner) if details and _on_nodes(job) else []),
        *_requirements(job, view),
        *_files(job),
        *_extras(job),
    ]
    return join_record(lines, oneliner) + (" " if oneliner else "\n   \n")


def _said(text: str | None) -> str:
    """What the user said, if only nothing; ``(null)`` for one who did not say."""
    return "(null)" if text is None else text


def _on_nodes(job: Job) -> bool:
    return bool(job.shares) and not job.shares[0].planned


def _is_batch(job: Job) -> bool:
    return job.request.kind == "batch"


def _title(job: Job) -> str:
    words = [f"JobId={job.job_id}"]
    if job.array_job_id:
        tasks = job.array_tasks if job.array_task_id is None else str(job.array_task_id)
        words.append(f"ArrayJobId={job.array_job_id} ArrayTaskId={tasks}")
        throttle = (job.array_tasks or job.array_spec or "").partition("%")[2]
        if throttle and job.state == states.PENDING:
            words.append(f"ArrayTaskThrottle={throttle}")
    if job.het_job_id:
        words.append(f"HetJobId={job.het_job_id} HetJobOffset={job.het_offset}")
    words.append(f"JobName={job.name}")
    return " ".join(words)


def show_limit(minutes: int) -> str:
    """``00:10:00`` or UNLIMITED."""
    return "UNLIMITED" if minutes == INFINITE else show_clock(minutes * 60)


def _times(job: Job, view: View) -> list[str]:
    request = job.request
    least = request.time_min or (1 if request.deadline and request.time_limit is None else 0)
    minimum = show_clock(least * 60) if least else "N/A"
    return [
        f"RunTime={show_clock(facts.time_used(job, view.now))} TimeLimit={show_limit(facts.time_limit(job, view))}"
        f" TimeMin={minimum}",
        f"SubmitTime={view.stamp(job.submit_time, 'Unknown')} EligibleTime={view.stamp(facts.eligible_time(job), 'Unknown')}",
        f"AccrueTime={view.stamp(accrue_time(job), 'Unknown')}",
        *([f"ResizeTime={view.stamp(job.resize_time)}"] if job.resize_time else []),
        f"StartTime={view.stamp(job.start_time, 'Unknown')} EndTime={view.stamp(facts.end_time(job, view), 'Unknown')}"
        f" Deadline={view.stamp(request.deadline)}",
        *([f'CronJob=Yes CrontabSpec="{request.cron}"'] if request.cron else []),
        f"SuspendTime={view.stamp(job.suspend_time, 'None')} SecsPreSuspend={_before_suspension(job)}"
        f" LastSchedEval={view.stamp(job.last_sched or job.submit_time, 'Unknown')} Scheduler=Main",
    ]


def _before_suspension(job: Job) -> int:
    return int(facts.time_used(job, job.suspend_time)) if job.suspend_time and job.start_time else 0


def _sizes(job: Job, view: View) -> list[str]:
    request = job.request
    never_ran = job.state in states.TERMINAL and not job.shares
    tasks = "N/A" if never_ran and request.ntasks is None and request.ntasks_per_node is None else str(job.tasks)
    return [
        f"NumNodes={facts.num_nodes(job, view)} NumCPUs={job.cpus} NumTasks={tasks} CPUs/Task={request.task_cpus}"
        f" ReqB:S:C:T=0:0:{_starred(request.cores_per_socket)}:{_starred(request.threads_per_core)}",
        f"TRES={facts.tres(job, view)}",
        f"Socks/Node={_starred(request.sockets_per_node)} NtasksPerN:B:S:C={request.ntasks_per_node or 0}:0:"
        f"{_starred(request.ntasks_per_socket)}:{_starred(request.ntasks_per_core)} CoreSpec=*",
    ]


def _starred(number: int | None) -> str:
    return "*" if number is None else str(number)


def _layout(job: Job, oneliner: bool) -> list[str]:
    """What the job holds of each node; neighbours that hold the same share a line."""
    types = [kind for share in job.shares for kind in share.gpu_types or [""] * len(share.gpus)]
    held = [f"gpu:{kind}:{types.count(kind)}" if kind else f"gpu:{types.count(kind)}" for kind in dict.fromkeys(types)]
    lines = [f"JOB_GRES={','.join(held) or '(null)'}"]
    groups: list[tuple[NodeShare, list[str]]] = []
    for share in job.shares:
        if groups and groups[-1][0] == share.replace(name=groups[-1][0].name, host=groups[-1][0].host):
            groups[-1][1].append(share.name)
        else:
            groups.append((share, [share.name]))
    for share, names in groups:
        gres = facts.gres_held(share)
        indent = "" if oneliner else "  "
        lines.append(
            f"{indent}Nodes={hostlist.fold(names)} CPU_IDs={fold_ranks(range(share.cpus))} Mem={share.memory} GRES={gres}"
        )
    return lines


def _delay_boot(request: JobRequest) -> str:
    return show_clock(max(parse_seconds_any(request.extra.get("delay-boot", "0")), 0))


def _requirements(job: Job, view: View) -> list[str]:
    request = job.request
    amount, per_cpu = facts.min_memory(job, view)
    return [
        f"MinCPUsNode={facts.min_cpus_per_node(job)} MinMemory{'CPU' if per_cpu else 'Node'}={show_memory(amount)}"
        f" MinTmpDiskNode={show_memory(request.tmp_disk or 0)}",
        f"Features={_said(request.constraint).replace(',', '&')} DelayBoot={_delay_boot(request)}",
        *([f"ClusterFeatures={request.extra['cluster-constraint']}"] if "cluster-constraint" in request.extra else []),
        *([f"Prefer={request.prefer.replace(',', '&')}"] if request.prefer is not None else []),
        *([f"BatchFeatures={request.extra['batch']}"] if "batch" in request.extra else []),
        f"OverSubscribe={facts.over_subscribe(job)} Contiguous={int(request.contiguous)}"
        f" Licenses={_said(request.licenses)} Network={_said(request.extra.get('network'))}",
        f"Command={facts.or_null(facts.command(job))}",
        f"WorkDir={request.work_dir}",
    ]


def _files(job: Job) -> list[str]:
    comment = job.comment or job.request.comment
    lines = [f"Comment={comment} "] if comment is not None else []
    if job.system_comment:
        lines.append(f"SystemComment={job.system_comment} ")
    if _is_batch(job):
        out, err, read = facts.files(job)
        lines += [f"StdErr={err}", f"StdIn={read}", f"StdOut={out}"]
    count, wait = facts.switches(job)
    if count != "0":
        lines.append(f"Switches={count}@{show_clock(wait)}")
    frequency = show_cpu_freq(job.request.extra.get("cpu-freq", ""))
    if frequency:
        lines.append(frequency)
    if "bb" in job.request.extra:
        lines.append(f"BurstBuffer={job.request.extra['bb']}")
    lines.append(f"Power={job.request.extra.get('power', '')}")
    flags = _flags(job.request)
    return [*lines, flags] if flags else lines


def _flags(request: JobRequest) -> str:
    """Slurm puts nothing between them."""
    words = {"enforce-binding": "GresEnforceBind=Yes", "disable-binding": "GresEnforceBind=No"}
    flags = words.get(request.extra.get("gres-flags", "").lower(), "")
    if request.kill_on_invalid_dep is not None:
        flags += f"KillOInInvalidDependent={'Yes' if request.kill_on_invalid_dep else 'No'}"
    return flags + ("SpreadJob=Yes" if request.spread_job else "")


def _extras(job: Job) -> list[str]:
    request = job.request
    found = {
        "CpusPerTres": f"gres:gpu:{request.cpus_per_gpu}" if request.cpus_per_gpu else "",
        "MemPerTres": "" if request.mem_per_gpu is None else f"gres:gpu:{request.mem_per_gpu}",
        "TresBind": _gpu_bind(request.extra.get("gpu-bind", "")),
        "TresFreq": _gpu_bind(request.extra.get("gpu-freq", "")),
        "TresPerJob": show_gpus_field(request.gpus),
        "TresPerNode": facts.tres_per_node(job),
        "TresPerSocket": show_gpus_field(request.gpus_per_socket),
        "TresPerTask": show_gpus_field(request.gpus_per_task),
    }
    lines = [f"{name}={value}" for name, value in found.items() if value]
    if request.mail_type and request.mail_type.upper() != "NONE":
        lines.append(f"MailUser={request.mail_user or job.user} MailType={request.mail_type}")
    if request.ntasks_per_gpu:
        lines.append(f"NtasksPerTRES={request.ntasks_per_gpu}")
    return lines


def _gpu_bind(text: str) -> str:
    return f"gpu:{text}" if text else ""


def _hosts(text: str | None) -> str:
    if text is None:
        return "(null)"
    try:
        return hostlist.as_written(text)
    except ValueError:
        return text


def _step_tres(step: Step) -> str:
    memory = show_memory(step.memory) if step.memory else "0"
    gpus = f",gres/gpu={step.gpus}" if step.gpus else ""
    return f"cpu={step.cpus},mem={memory},node={len(step.nodes)}{gpus}"


def _spread(distribution: str) -> str:
    """``Block``, ``Cyclic``, ``BCyclic`` for ``block:cyclic``, as Slurm names them."""
    first, _, second = distribution.partition(",")[0].partition(":")
    if first == "arbitrary":
        return "arbitrary task distribution"
    return f"{first[:1].upper()}{second.capitalize()}" if second in ("block", "cyclic") else first.capitalize()


def step_record(job: Job, step: Step, view: View, *, oneliner: bool = False) -> str:
    """A step's record, with the newline (``oneliner``: nothing) that ends it."""
    from shim.core.render.step_fields import step_label

    cpus = 0 if step.step_id == "batch" else step.cpus
    limit = show_limit(INFINITE if step.time_limit is None else step.time_limit)
    spread = f" Dist={_spread(step.distribution)}" if step.distribution else ""
    lines = [
        f"StepId={step_label(job, step)} UserId={job.uid} StartTime={view.stamp(step.start_time, 'Unknown')}"
        f" TimeLimit={limit}",
        f"State={step.state} Partition={job.partition} NodeList={hostlist.fold(step.nodes)}",
        f"Nodes={len(step.nodes)} CPUs={cpus} Tasks={step.tasks} Name={step.name} Network=(null)",
        f"TRES={_step_tres(step) if cpus else '(null)'}",
        "ResvPorts=(null)",
        f"CPUFreqReq=Default{spread}",
        f"SrunHost:Pid={step.srun or '(null):0'}",
    ]
    return join_record(lines, oneliner) + ("" if oneliner else "\n")
