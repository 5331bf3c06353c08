"""What is known of Jobs and pods from answers, before a watch tells of them."""

from __future__ import annotations

import pytest

from shim.control.backends.kubernetes.cluster.cluster_cache import Seen
from shim.control.backends.kubernetes.objects import names


@pytest.mark.parametrize("kind", ["Pod", "Job"])
def test_what_no_watch_tells_of_is_believed_for_a_while_only(kind: str) -> None:
    now = 0.0
    seen = Seen(lambda: now)
    shown, told = (seen.pods_of, seen.pod_event) if kind == "Pod" else (seen.jobs_of, seen.job_event)
    metadata = {"name": "slurm-7-0", "uid": "made", "labels": names.labels(7, 0, "record", 0)}
    made = {"kind": kind, "metadata": metadata, "spec": {}, "status": {}}
    seen.note(made)
    now = 29.0
    assert [one["metadata"]["uid"] for one in shown(7, "record")] == ["made"]
    now = 31.0
    assert not shown(7, "record")  # it came and went while the watch was lost
    seen.note(made)
    told("ADDED", Seen.trim(made))
    now = 1000.0
    assert shown(7, "record")
