"""What a trigger waits for, and how it is listed: lines of a real strigger 22.05."""

from __future__ import annotations

from shim.core.model.cluster import Cluster, Node
from shim.core.triggers import Trigger, listed, out_of_service


def test_the_listing() -> None:
    found = [
        Trigger(id=2, type="time", job_id=142, offset=-5, user="root", program="/tmp/dbd/prog a b"),
        Trigger(id=5, type="drained", nodes="node[1-2]", permanent=True, user="root", program="/tmp/dbd/prog"),
        Trigger(id=11, type="primary_slurmctld_resumed_operation", user="root", program="/tmp/dbd/prog"),
    ]
    assert listed(found, header=True) == [
        "TRIG_ID RES_TYPE   RES_ID TYPE                                OFFSET USER     FLAGS PROGRAM",
        "      2 job           142 time                                    -5 root           /tmp/dbd/prog a b",
        "      5 node      node[1-2] drained                                  0 root     PERM  /tmp/dbd/prog",
        "     11 slurmctld       * primary_slurmctld_resumed_operation      0 root           /tmp/dbd/prog",
    ]
    assert listed([], header=True) == []
    assert len(listed(found, header=False)) == 3


def test_which_nodes_it_waits_on() -> None:
    names = ["n1", "n2", "n3"]
    assert Trigger(id=1, type="down").wants("down", "a", names) == names
    assert Trigger(id=1, type="down").wants("up", "a", names) == []
    assert Trigger(id=1, type="down", cluster="a", nodes="n[2-9]").wants("down", "a", names) == ["n2", "n3"]
    assert Trigger(id=1, type="down", cluster="b", nodes="n[2-9]").wants("down", "a", names) == []
    assert Trigger(id=1, type="down", cluster="a", job_id=7).wants("down", "a", names, {"n3"}) == ["n3"]
    assert Trigger(id=1, type="down", fired="n1").wants("down", "a", names) == []


def test_what_is_out_of_service() -> None:
    nodes = [Node(name=f"n{at}", state=state) for at, state in enumerate(("", "DOWN", "DRAIN", "DOWN+DRAIN", "DRAIN"))]
    assert out_of_service(Cluster(name="a", nodes=tuple(nodes)), ["n2"]) == ({"n1", "n3"}, {"n3", "n4"})
