"""The node records of ``sinfo --json``, and of ``scontrol show node --json`` in the newer layout."""

from __future__ import annotations

from shim.core.formats.sizes import show_memory
from shim.core.render.openapi.layout import NEW, OLD, Field, count, number, plain, record, text
from shim.core.render.sinfo_fields import gres_text, gres_used

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.core.model.cluster import Cluster
    from shim.core.render.node_state import NodeUse
    from shim.core.render.openapi.layout import Record
    from shim.core.render.scontrol_node import Machine

_WATTS = {
    "average_watts": 0,
    "base_consumed_energy": 0,
    "consumed_energy": 0,
    "current_watts": number(None, newer=True),
    "previous_consumed_energy": 0,
    "last_collected": 0,
}


class _Node:
    """A node as it is shown, and what several fields are made of."""

    def __init__(self, cluster: Cluster, use: NodeUse, machine: Machine, now: float) -> None:
        self.cluster = cluster
        self.use = use
        self.node = use.node
        self.machine = machine
        self.now = now
        self.state, *self.flags = use.complete.split("+")

    @property
    def tres(self) -> str:
        """What there is to be had of the node."""
        node = self.node
        gpus = f",gres/gpu={node.gpus}" if node.gpus and self.cluster.accounting else ""
        return f"cpu={node.cpus},mem={show_memory(node.memory)},billing={node.cpus}{gpus}"

    @property
    def tres_used(self) -> str | None:
        """What jobs hold of it."""
        used = [f"cpu={self.use.cpus}"] if self.use.cpus else []
        used += [f"mem={show_memory(self.use.memory)}"] if self.use.memory else []
        return ",".join(used) or None


def node_record(cluster: Cluster, use: NodeUse, machine: Machine, now: float, *, newer: bool) -> Record:
    """A node's record."""
    return record(NODE, _Node(cluster, use, machine, now), newer)


def _features(one: _Node) -> str:
    return ",".join(one.node.features)


def _load(one: _Node) -> int | None:
    return None if one.machine.load is None else round(100 * one.machine.load)


def _last_busy(one: _Node) -> int:
    return int(one.now if one.use.jobs else one.machine.boot_time)


def _boot_time(one: _Node) -> int:
    return int(one.machine.boot_time)


# In the order of the layouts, which differ in places.
NODE = (
    Field("architecture", plain, lambda one: one.machine.arch),
    Field("burstbuffer_network_address", plain, ""),
    Field("boards", plain, 1),
    Field("boot_time", number, _boot_time),
    Field("tls_cert_last_renewal", number, None, NEW),
    Field("cert_flags", plain, [], NEW),
    Field("cluster_name", plain, lambda one: one.cluster.name, NEW),
    Field("comment", plain, lambda one: one.node.comment, OLD),
    Field("cores", plain, lambda one: one.node.cores_per_socket),
    Field("specialized_cores", plain, 0, NEW),
    Field("cpu_binding", plain, 0),
    Field("cpu_load", count, _load),
    Field("extra", plain, lambda one: one.node.extra, OLD),
    Field("free_memory", plain, lambda one: one.machine.free_memory, OLD),
    Field("free_mem", number, lambda one: one.machine.free_memory, NEW),
    Field("cpus", plain, lambda one: one.node.cpus),
    Field("effective_cpus", plain, lambda one: one.node.cpus, NEW),
    Field("specialized_cpus", plain, "", NEW),
    Field("energy", plain, _WATTS, NEW),
    Field("external_sensors", plain, {}, NEW),
    Field("extra", plain, lambda one: one.node.extra, NEW),
    Field("power", plain, {}, NEW),
    Field("last_busy", plain, _last_busy, OLD),
    Field("features", plain, _features, OLD),
    Field("active_features", plain, _features, OLD),
    Field("features", plain, lambda one: list(one.node.features), NEW),
    Field("active_features", plain, lambda one: list(one.node.features), NEW),
    Field("gpu_spec", plain, "", NEW),
    Field("gres", plain, lambda one: gres_text(one.node)),
    Field("gres_drained", plain, "N/A"),
    Field("gres_used", plain, lambda one: gres_used(one.use)),
    Field("instance_id", plain, "", NEW),
    Field("instance_type", plain, "", NEW),
    Field("last_busy", number, _last_busy, NEW),
    Field("mcs_label", plain, ""),
    Field("specialized_memory", plain, 0, NEW),
    Field("name", plain, lambda one: one.node.name),
    Field("next_state_after_reboot", plain, "invalid", OLD),
    Field("next_state_after_reboot", plain, ["INVALID"], NEW),
    Field("address", plain, lambda one: one.node.address or one.node.name),
    Field("hostname", plain, lambda one: one.node.name),
    Field("state", plain, lambda one: one.state.lower(), OLD),
    Field("state_flags", plain, lambda one: one.flags, OLD),
    Field("next_state_after_reboot_flags", plain, [], OLD),
    Field("state", plain, lambda one: [one.state, *one.flags], NEW),
    Field("operating_system", plain, lambda one: one.machine.system),
    Field("owner", text, None),
    Field(
        "partitions", plain, lambda one: [part.name for part in one.cluster.partitions if one.node.name in part.nodes]
    ),
    Field("port", plain, 6818),
    Field("real_memory", plain, lambda one: one.node.memory),
    Field("res_cores_per_gpu", plain, 0, NEW),
    Field("comment", plain, lambda one: one.node.comment, NEW),
    Field("reason", plain, lambda one: one.node.reason),
    Field("reason_changed_at", number, lambda one: int(one.node.reason_time)),
    Field("reason_set_by_user", text, lambda one: one.node.reason_user or None),
    Field("resume_after", number, None, NEW),
    Field("reservation", plain, "", NEW),
    Field("alloc_memory", plain, lambda one: one.use.memory, NEW),
    Field("alloc_cpus", plain, lambda one: one.use.cpus, NEW),
    Field("alloc_idle_cpus", plain, lambda one: one.node.cpus - one.use.cpus, NEW),
    Field("tres_used", text, lambda one: one.tres_used, NEW),
    Field("tres_weighted", plain, lambda one: float(one.use.cpus), NEW),
    Field("slurmd_start_time", number, _boot_time),
    Field("sockets", plain, lambda one: one.node.sockets),
    Field("threads", plain, lambda one: one.node.threads_per_core),
    Field("temporary_disk", plain, lambda one: one.node.tmp_disk),
    Field("weight", plain, lambda one: one.node.weight),
    Field("topology", plain, "", NEW),
    Field("tres", plain, lambda one: one.tres),
    Field("version", plain, lambda one: one.cluster.version, NEW),
    Field("slurmd_version", plain, lambda one: one.cluster.version, OLD),
    Field("alloc_memory", plain, lambda one: one.use.memory, OLD),
    Field("alloc_cpus", plain, lambda one: one.use.cpus, OLD),
    Field("idle_cpus", plain, lambda one: one.node.cpus - one.use.cpus, OLD),
    Field("tres_used", plain, lambda one: one.tres_used, OLD),
    Field("tres_weighted", plain, lambda one: float(one.use.cpus), OLD),
)
