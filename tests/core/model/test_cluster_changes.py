"""What operators changed of a cluster, as it is kept."""

from __future__ import annotations

from shim.core import jsonlite
from shim.core.model.cluster_changes import apply_changes, differences
from tests import reference


def test_changes_survive_being_kept() -> None:
    cluster = reference.cluster()
    first, *others = cluster.nodes
    drained = first.replace(state="DRAIN", reason="disk", reason_time=3.0, features=("a", "b"))
    closed = cluster.partitions[0].replace(state="DOWN", nodes=("n2",), max_time=None, default=False)
    now = cluster.replace(nodes=(drained, *others), partitions=(closed, *cluster.partitions[1:]))
    kept = jsonlite.loads(jsonlite.dumps(differences(cluster, now)))
    assert apply_changes(cluster, kept) == now
    assert apply_changes(cluster, jsonlite.loads(jsonlite.dumps(differences(cluster, cluster)))) == cluster


def test_what_is_gone_or_unknown_does_not_count() -> None:
    cluster = reference.cluster()
    changes = {"nodes": {"gone": {"state": "DOWN"}, "n1": {"nosuch": 1, "state": "DOWN"}}, "partitions": {"gone": {}}}
    assert [node.state for node in apply_changes(cluster, changes).nodes][:2] == ["DOWN", ""]
    assert apply_changes(cluster, {}) == cluster
