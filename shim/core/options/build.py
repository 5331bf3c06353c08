"""From settled options to what is asked of the controller (JobRequest) or of an allocation (StepRequest)."""

from __future__ import annotations

from shim.core.errors import INVALID_TRES, KINDS, RequestError, ShimError, submission_failed
from shim.core.model.request import JobRequest, StepRequest
from shim.core.options.sources import full_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Literal, Optional, Sequence

    from shim.core.model.request import SignalRequest
    from shim.core.options.sources import Settings
    from shim.core.options.validate import Validated


def job_request(
    settings: Validated,
    *,
    directory: str,
    umask: int,
    name: Optional[str],
    command: Optional[str] = None,
    arguments: Sequence[str] = (),
) -> JobRequest:
    """The submission that ``settings`` describe.

    ``directory`` is where the command runs, ``name`` the job's name if the user gives none, ``command`` what the request
    keeps as Command. Raises RequestError for what the controller would refuse without looking at its cluster.
    """
    kind = KINDS[settings.command]
    _check_arbitrary(settings, kind)
    _check_burst_buffer_file(settings)
    fields: Dict[str, Any] = {
        **_implied(settings),
        **_picked(settings, "job"),
        **_reworded(settings),
        **_node_numbers(settings),
        # srun writes its tasks' files itself: they are its step's.
        **({field: settings.get(option) for option, field in _FILES if option in settings} if kind == "batch" else {}),
    }
    request = JobRequest(
        kind=kind,
        name=settings.get("job-name", name),
        command=command,
        arguments=tuple(arguments),
        work_dir=full_path(settings.get("chdir", directory), directory),
        umask=umask,
        signal=_signal(settings),
        exclusive={"exclusive": "node", "user": "user", "mcs": "mcs"}.get(settings.shared or ""),
        oversubscribe=settings.shared == "oversubscribe",
        requeue=settings.get("requeues"),
        get_user_env="get-user-env" in settings or "export-file" in settings,
        gres=_gres(settings),
        container=_container(settings),
        extra=_recorded(settings, directory),
        **_in_sixteen_bits(settings, fields),
    )
    return _with_numbers_of_gpus(settings, request)


def _check_arbitrary(settings: Settings, kind: str) -> None:
    """-m arbitrary needs the names of its nodes."""
    if not (settings.get("distribution") or "").startswith("arbitrary") or settings.get("nodelist"):
        return
    if kind == "run" and settings.get("ntasks") is None:
        raise RequestError("error: invalid number of tasks (-n 0)")
    raise RequestError(
        "error: With Arbitrary distribution you need to specify a nodelist or hostfile with the -w option"
    )


def _check_burst_buffer_file(settings: Settings) -> None:
    if settings.get("bbf") is not None:
        try:
            settings.context.read(settings.get("bbf"))
        except (OSError, ValueError):
            raise ShimError("error: Invalid --bbf specification") from None


def _implied(settings: Settings) -> Dict[str, Any]:
    """What options say of fields that other options are made for, which win."""
    fields: Dict[str, Any] = {}
    hints = settings.get("hint", "").split(",")
    if any(hint in ("nomultithread", "compute_bound", "memory_bound") for hint in hints):
        fields["threads_per_core"] = 1
    if "memory_bound" in hints:
        fields["cores_per_socket"] = 1
    if "ntasks-per-tres" in settings:
        fields["ntasks_per_gpu"] = settings.get("ntasks-per-tres")
    return fields


def _reworded(settings: Settings) -> Dict[str, Any]:
    """The fields that do not hold their option's value as it was read."""
    fields: Dict[str, Any] = {}
    if "account" in settings:
        fields["account"] = settings.get("account").lower()
    if settings.get("dependency") != "0":  # none at all
        fields["dependency"] = settings.get("dependency")
    if "switches" in settings:
        count, wait = settings.get("switches")
        fields["switches"] = str(count) if wait is None or wait < 0 else f"{count}@{wait // 60}:{wait % 60:02d}"
    if "priority" in settings:
        from shim.core.options.numeric_values import priority

        fields["priority"] = priority(settings.get("priority"))
    return fields


def _node_numbers(settings: Settings) -> Dict[str, Any]:
    """``min_nodes`` and ``max_nodes``: of --nodes, and of options that say something of them."""
    least, most = settings.get("nodes", (None, None))
    if settings.get("spread-job") and "nodes" not in settings:
        most = settings.get("ntasks", settings.get("ntasks-per-node"))
    if settings.get("ntasks") == 0:  # -B 0: no node is asked for
        return {"ntasks": None, "min_nodes": 0, "max_nodes": most}
    if least is None and settings.get("nodelist") is not None and not settings.get("nodelist").strip(","):
        least = 0
    return {"min_nodes": least, "max_nodes": most}


def _with_numbers_of_gpus(settings: Settings, request: JobRequest) -> JobRequest:
    """The request with the numbers of tasks and nodes that its GPUs mean. RequestError for GPUs that contradict each other."""
    if "gres" not in settings and not any("gpu" in option or "tres" in option for option in settings.sources):
        return request
    from shim.core.options.gpu_rules import check_gpus, nodes_of_gpus, tasks_per_node

    check_gpus(request)
    least, most = nodes_of_gpus(request)
    return request.replace(ntasks_per_node=tasks_per_node(request), min_nodes=least, max_nodes=most)


_FILES = (("input", "stdin"), ("output", "stdout"), ("error", "stderr"))


def step_request(settings: Validated, argv: Sequence[str] = ()) -> StepRequest:
    """The step that srun's ``settings`` ask for. ``--multi-prog`` files are read by srun itself."""
    gres = settings.get("gres")
    least, most = settings.get("nodes", (None, None))
    return StepRequest(
        argv=tuple(argv),
        work_dir=settings.get("chdir"),
        exclusive=settings.shared is not None and settings.shared != "oversubscribe",
        overlap=bool(settings.get("overlap")) or "external-launcher" in settings,
        kill_on_bad_exit=bool(settings.get("kill-on-bad-exit")),
        gres=None if gres is None else "none" if gres.lower() == "none" else _gres(settings),
        min_nodes=least,
        max_nodes=most or None,
        nodes_inherited="nodes" in settings and not settings.given("nodes"),
        container=_container(settings),
        **{"ntasks_per_gpu": settings.get("ntasks-per-tres"), **_picked(settings, "step")},
    )


def _picked(settings: Settings, of: Literal["job", "step"]) -> Dict[str, Any]:
    """The fields of a job or a step that are an option's value as it was read."""
    by_name = settings.table.by_name
    fields = {}
    for name in settings.values:
        field = by_name[name].get(of) if name in by_name else None
        if field is not None and field[0] != "*" and field != "extra":
            fields[field] = settings.values[name]
    return fields


def _container(settings: Settings) -> Dict[str, str]:
    """What is asked of a container; of two flags that exclude each other the one that counts."""
    asked = [name for name in settings.sources if name.startswith("container")]
    return {
        name: settings.texts[name] for name in asked if not settings.row(name).get("support", "").startswith("inert")
    }


def _recorded(settings: Settings, directory: str) -> Dict[str, str]:
    """The texts that are only kept, and ``submit_dir`` (SLURM_SUBMIT_DIR) where --chdir makes it differ."""
    recorded = [name for name in sorted(settings.sources) if settings.row(name).get("job") == "extra"]
    kept = {name: settings.texts[name] for name in recorded}
    # Slurm keeps these as it understood them.
    kept.update({option: settings.get(option) for option in ("cpu-freq", "power", "profile") if option in kept})
    if "chdir" in settings:
        kept["submit_dir"] = directory
    return kept


def _signal(settings: Settings) -> Optional[SignalRequest]:
    text = settings.get("signal")
    if not text:
        return None
    from shim.core.formats.signals import parse_signal_request

    return parse_signal_request(text)


def _gres(settings: Settings) -> Optional[str]:
    text = settings.get("gres")
    if text is None:
        return None
    from shim.core.formats.tres import kept_gres

    try:
        return (kept_gres(text) or None) if text not in ("", "gres:") else "gres:"  # which the controller refuses
    except ValueError as error:
        raise RequestError(f"error: {error}") from None


def check_step(step: StepRequest) -> None:
    """RequestError for resources that nobody can read: of a step in a job; of one that gets a job, the job's controller says it."""
    from shim.core.formats.tres import normalize_gres

    try:
        normalize_gres(step.gres or "")
    except ValueError as error:
        if str(error) == INVALID_TRES:
            raise submission_failed("run", INVALID_TRES) from None
        raise RequestError(f"error: {error}") from None


def _in_sixteen_bits(settings: Settings, fields: Dict[str, Any]) -> Dict[str, Any]:
    """The fields as Slurm keeps them: it has 16 bits for some of these numbers, in which a larger one is another."""
    by_name = settings.table.by_name
    kept: Dict[str, Any] = {}
    for option in settings.values:
        if "sixteen_bits" in by_name.get(option, ()) and settings.get(option) >= 0xFFFE:
            name, number = by_name[option]["job"], settings.get(option)
            if name == "ntasks_per_node" and fields.get("ntasks") is None:
                kept["ntasks"] = number * (fields.get("min_nodes") or 1)
            kept[name] = None if number & 0xFFFF in (0, 0xFFFE, 0xFFFF) else number & 0xFFFF
    return {**fields, **kept} if kept else fields
