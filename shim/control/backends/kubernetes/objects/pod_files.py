"""A run as its pods see it: other names of nodes, and the files of its Secret. Pure but for what is read from the spool."""

from __future__ import annotations

import json
from collections.abc import Mapping

from shim.control.backends.base import BackendError
from shim.control.backends.kubernetes.objects import names
from shim.control.backends.kubernetes.settings import Settings
from shim.core.environ.job import gpu_variables
from shim.job.pod.places import PORT, ROOT, Places
from shim.job.spec import SCRIPT, Returns, RunNode, RunSpec

MOST = 1000 * 1024  # bytes that a Secret's data may have, with room for its frame
HEARTBEAT = 10  # seconds
COMPLAIN = 15  # seconds that a pod looks for the first one before it says why it does not find it
PROFILE = "profile.sh"  # mounted into /etc/profile.d
# A login shell begins its PATH anew; our commands stay first all the same.
_PROFILE = f"PATH={Places(ROOT, '').commands}${{PATH:+:$PATH}}\nexport PATH\n"
AUTOSCALE_WAIT = 1200  # seconds for a node to be added


def barrier(settings: Settings) -> int:
    """Seconds after which agents that have not begun leave by themselves: no controller is there, or they cannot meet."""
    return max(settings.boot_limit, settings.bind_wait, AUTOSCALE_WAIT if settings.autoscale else 0)


def inside(spec: RunSpec, settings: Settings, *, staged: bool, named: bool) -> RunSpec:
    """The spec for the pods: every node goes by the name that resolves there, and GPUs are counted from 0 in each.

    ``named``: the cluster chooses the nodes, and the agents know what they are called outside.
    """
    hosts = {node.name: node.host for node in spec.nodes}
    domain = f"{names.SERVICE}.{settings.namespace}.svc.{settings.cluster_domain}."
    cluster = spec.cluster.replace(
        nodes=tuple(node.replace(name=hosts.get(node.name, node.name), address="") for node in spec.cluster.nodes),
        partitions=tuple(one.replace(settings={}) for one in spec.cluster.partitions),
        settings={},
    )
    shares = tuple(share.replace(gpus=tuple(range(len(share.gpus))), planned=False) for share in spec.job.shares)
    return spec.replace(
        job=spec.job.replace(shares=shares),
        cluster=cluster,
        nodes=tuple(RunNode(name=node.host, host=node.host) for node in spec.nodes),
        isolate="none",
        private="",
        commands=Places(ROOT, "").commands,
        news=(),
        listen=f"tcp:{PORT}",
        barrier=barrier(settings),
        leader=f"{names.host(spec.job.job_id, spec.run, 0)}.{domain}",
        heartbeat=HEARTBEAT,
        encrypted=settings.encrypt,
        grace=settings.node_wait,
        complain=COMPLAIN,
        staged=staged,
        returns=_returns(spec, settings) if staged else Returns(),
        told_names=named,
        barred=(),
        echo_output=True,
    )


def _returns(spec: RunSpec, settings: Settings) -> Returns:
    if spec.job.request.work_dir.rstrip("/") in ("", "/tmp"):
        return Returns()  # what every image has: no folder of the job's own
    return Returns(bytes=settings.files_limit << 20, files=settings.files_count, wait=settings.files_wait)


def gpu_environment(spec: RunSpec) -> dict[str, str]:
    """What a batch script in the pods must be told of its GPUs: a container has only its own, whatever they are outside."""
    own = spec.job.shares[0].gpus
    return {**gpu_variables(own), "SLURM_JOB_GPUS": ",".join(map(str, own))} if own else {}


def files(spec: RunSpec, environment: Mapping[str, str], script: bytes | None, key: bytes) -> dict[str, bytes]:
    """What the Secret holds. Raises BackendError for a job that is too large for one."""
    made = {
        PROFILE: _PROFILE.encode("ascii"),
        "spec.json": json.dumps(spec.to_dict()).encode("ascii"),
        "environment.json": json.dumps(dict(environment)).encode("ascii"),
        "key": key.hex().encode("ascii"),
    }
    if script is not None:
        made[SCRIPT] = script
    total = sum(len(content) for content in made.values())
    if total > MOST:
        largest = max(made, key=lambda name: len(made[name]))
        raise BackendError(
            f"{total} bytes are more than the {MOST} that a Secret holds; the largest part is {largest} with {len(made[largest])}"
        )
    return made


def passwd(spec: RunSpec, user: tuple[int, int]) -> dict[str, bytes]:
    """/etc/passwd and /etc/group of the pods: root, the user, nobody."""
    job = spec.job
    name, group = (job.user or "user", job.group or "group")
    home = "/" if ":" in name else f"/home/{name}"
    own = "" if user[0] == 0 else f"{name}:x:{user[0]}:{user[1]}:{name}:{home}:/bin/sh\n"
    groups = "" if user[1] == 0 else f"{group}:x:{user[1]}:\n"
    return {
        "passwd": f"root:x:0:0:root:/root:/bin/sh\n{own}nobody:x:65534:65534:nobody:/:/bin/false\n".encode(),
        "group": f"root:x:0:\n{groups}nogroup:x:65534:\n".encode(),
    }
