"""The doctor, asked by users of a real Kubernetes who lack one permission of the documented Role each."""

from __future__ import annotations

import copy
import io
import json
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from compat.cluster.kubernetes.settings import IMAGE_PYTHON
from compat.cluster.kubernetes.tenant import ROLE, Tenant, kubectl
from shim.admin.doctor import kubernetes, machine
from shim.admin.doctor.permissions import NEEDED
from tests.control.backends.kubernetes.real import kubeconfig
from tests.support import wait_until

__all__ = ["kubeconfig"]
pytestmark = pytest.mark.kubernetes
CONFIG = """
[clusters.k8s]
backend = "kubernetes"
kubeconfig = "{kubeconfig}"
namespace = "{namespace}"
image = "{image}"
nodes = 3
cpus = 4
memory = "1G"
"""
GROUPS = {
    "create": "note  jobs of several nodes start together by suspension (may not create PodGroups)",
    "get": "note  may not get podgroups: a start that was interrupted cannot be taken up",
}
GRANT = "note  docs/kubernetes-role.yaml is the Role that gives all of them"


@pytest.fixture
def tenant(kubeconfig: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tenant]:
    """A user with the documented Role, in a namespace of this test, as whom the doctor looks."""
    made = Tenant(kubeconfig, f"shim-test-{secrets.token_hex(4)}", tmp_path, tmp_path)
    try:
        config = tmp_path / "config.toml"
        config.write_text(CONFIG.format(kubeconfig=made.kubeconfig, namespace=made.namespace, image=IMAGE_PYTHON))
        monkeypatch.setenv("SHIM_CONFIG", str(config))
        yield made
    finally:
        made.close()


def complaints() -> list[str]:
    """What the doctor says of permissions."""
    out = io.StringIO()
    machine.report(out)
    return [line for line in out.getvalue().splitlines() if "may not " in line or "refused" in line or line == GRANT]


def without_one(role: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(verb, resource, the Role without that permission)."""
    for number, rule in enumerate(role["rules"]):
        assert len(rule["resources"]) == 1
        for verb in rule["verbs"]:
            changed = copy.deepcopy(role)
            changed["rules"][number]["verbs"].remove(verb)
            changed["rules"] = [one for one in changed["rules"] if one["verbs"]]
            yield verb, rule["resources"][0], changed


def expected(verb: str, resource: str) -> list[str]:
    if resource == "podgroups":
        return [GROUPS[verb]]
    one = next(one for one in NEEDED if one.text == f"{verb} {resource}")
    return [f"{'FAIL' if one.vital else 'note'}  may not {one.text}: {one.lost}", GRANT]


def test_two_pods_meet_as_the_documented_role_allows(tenant: Tenant) -> None:
    out = io.StringIO()
    machine.report(out)
    assert "reach each other on TCP port 6818, and find names" in out.getvalue(), out.getvalue()


def test_each_permission_that_is_taken_away_is_named_with_what_is_lost(
    tenant: Tenant, kubeconfig: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def untried(_look: kubernetes.Look) -> None: ...

    monkeypatch.setattr(kubernetes.Look, "pods_meet", untried)  # each look would make two

    def grants(role: dict[str, Any]) -> None:
        kubectl(kubeconfig, "-n", tenant.namespace, "apply", "-f", "-", given=json.dumps(role))

    def finds(wanted: list[str], what: str) -> None:
        wait_until(lambda: complaints() == wanted, what, pause=0.1)  # the API server needs a moment to know of a change

    role = next(one for one in yaml.safe_load_all(ROLE.read_text()) if one["kind"] == "Role")
    finds([], "nothing that is missing")
    taken = set()
    for verb, resource, changed in without_one(role):
        grants(changed)
        finds(expected(verb, resource), f"what is lost without {verb} {resource}")
        taken.add(f"{verb} {resource}")
    assert taken == {one.text for one in NEEDED} | {"get podgroups", "create podgroups"}
