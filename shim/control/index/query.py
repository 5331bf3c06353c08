"""Which jobs a reader wants: the WHERE clause of a question, so that cost grows with what is asked."""

from __future__ import annotations

from shim.core.model import states
from shim.core.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


class JobQuery(Value):
    """Conditions, all of which must hold. Empty = not asked for.

    ``clusters``: of any of these. ``job_ids``: own ids, and ids of arrays (all records of the array). ``active``: only jobs that have not ended.
    ``ended_since``: also ended jobs, if they ended at or after that second (None = whenever); used when not ``active``.
    ``users``: uids. ``partitions``: names; a job that waits for one of several partitions belongs to each.
    """

    cluster: str = ""
    clusters: tuple[str, ...] = ()
    job_ids: tuple[int, ...] = ()
    active: bool = True
    ended_since: float | None = None
    states: tuple[str, ...] = ()
    users: tuple[int, ...] = ()
    names: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()


def storable(value: object) -> object:
    """``value`` as a column holds it. Names are bytes to Slurm; SQLite takes none that are not UTF-8: such bytes are escaped."""
    if isinstance(value, str) and not value.isascii():
        return value.encode(errors="backslashreplace").decode()
    return value


def where(query: JobQuery) -> tuple[str, list[object]]:
    """SQL condition and its parameters for the table ``jobs``."""
    terms: list[str] = []
    values: list[object] = []

    def one_of(column: str, wanted: Iterable[object]) -> str:
        items = [storable(item) for item in wanted]
        values.extend(items)
        return f"{column} IN ({','.join('?' * len(items))})"

    if query.cluster:
        terms.append("+cluster = ?")  # the sign: by this index SQLite would read the cluster's whole past
        values.append(query.cluster)
    if query.clusters:
        terms.append(f"+{one_of('cluster', query.clusters)}")
    if query.job_ids:
        # Each half by its own index: SQLite would rather look at every job there ever was than use two for an OR.
        own, array = one_of("job_id", query.job_ids), one_of("array_job_id", query.job_ids)
        terms.append(f"key IN (SELECT key FROM jobs WHERE {own} UNION SELECT key FROM jobs WHERE {array})")
    if query.active:
        terms.append(one_of("state", sorted(states.ACTIVE)))
    elif query.ended_since is not None:
        active = one_of("state", sorted(states.ACTIVE))
        values.append(query.ended_since)
        terms.append(f"key IN (SELECT key FROM jobs WHERE {active} UNION SELECT key FROM jobs WHERE end_time >= ?)")
    if query.states:
        terms.append(one_of("state", query.states))
    if query.users:
        terms.append(one_of("uid", query.users))
    if query.names:
        terms.append(one_of("name", query.names))
    if query.partitions:
        listed = " OR ".join(["instr(',' || partition || ',', ?) > 0"] * len(query.partitions))
        terms.append(f"({listed})")
        values.extend(storable(f",{name},") for name in query.partitions)
    return (" AND ".join(terms) or "1"), values
