"""Cases in pods: the commands of this checkout on the real Kubernetes of cluster/k8s.py."""

from __future__ import annotations

import atexit
import os
import pwd
import shutil
import tempfile
from pathlib import Path

from compat.case import Case
from compat.cluster.kubernetes import settings
from compat.cluster.kubernetes.tenant import CLAIM, Tenant, kubectl
from compat.normalise import Places
from compat.record import Outcome
from compat.targets import CONFIG, SHAPE, acting, host_name, local_session, run_case

# Each job has pods to start, and a whole cluster shares the machine.
CASE_LIMIT = 400.0  # seconds for a case
WAIT_LIMIT = 180  # for one wait in it

# The same shape, described: the test cluster's three nodes all show the whole machine.
_CONFIG = f"""\
{SHAPE.replace("clusters.local", "clusters.pods").replace('"local"', '"kubernetes"')}
kubeconfig = "{{kubeconfig}}"
namespace = "{{namespace}}"
image = "{settings.IMAGE_PYTHON}"
mounts = [{{{{ path = "{{folder}}", {{source}} }}}}]
cpu_request = 1
spread = false
{{more}}

{CONFIG.replace(SHAPE, "").replace("clusters.local", "clusters.pods")}"""


class Kubernetes:
    """An administrator types; pods are what the image says. A state folder for each case, one namespace for all."""

    name = "kubernetes"

    def __init__(self, workers: int = 4) -> None:
        self.workers = workers
        self._account = pwd.getpwuid(os.geteuid())
        self._folder = Path(tempfile.mkdtemp(prefix="shim-compat-"))
        self._folder.chmod(0o755)
        atexit.register(shutil.rmtree, self._folder, ignore_errors=True)
        self._namespace = f"shim-compat-{os.getpid()}"
        self._kubeconfig, self._source, self._more = self._prepare(
            os.environ.get("KUBECONFIG") or str(settings.KUBECONFIG)
        )

    def _prepare(self, admin: str) -> tuple[str, str, str]:
        """The kubeconfig, where mounts come from, and more of the configuration."""
        kubectl(admin, "create", "namespace", self._namespace)
        atexit.register(kubectl, admin, "delete", "namespace", self._namespace, "--wait=false")
        return admin, f'host_path = "{self._folder}"', 'identity = "image"'

    def run(self, case: Case) -> tuple[Outcome, Places]:
        account = self._account
        config = _CONFIG.format(
            kubeconfig=self._kubeconfig,
            namespace=self._namespace,
            folder=self._folder,
            source=self._source,
            more=self._more,
        )
        other = account if account.pw_uid != os.geteuid() else None
        with tempfile.TemporaryDirectory(prefix="case-", dir=self._folder) as outer:
            os.chmod(outer, 0o755)
            os.chown(outer, account.pw_uid, account.pw_gid)
            with local_session(Path(outer), config, other) as environ:
                outcome, work = run_case(case, Path(outer), {**environ, "LIMIT": str(WAIT_LIMIT)}, other, CASE_LIMIT)
        return outcome, Places(work, account.pw_name, account.pw_dir, host_name(), pods=True)


class Restricted(Kubernetes):
    """The cluster's test user types, with the documented Role and nothing else, in a namespace that is `restricted`; the shared folder is
    a PersistentVolumeClaim."""

    name = "restricted"

    def _prepare(self, admin: str) -> tuple[str, str, str]:
        self._account = acting() or self._account
        place = self._folder / "own"
        place.mkdir(mode=0o755)
        tenant = Tenant(admin, self._namespace, self._folder, place)
        atexit.register(tenant.close)
        os.chown(tenant.kubeconfig, self._account.pw_uid, self._account.pw_gid)
        return str(tenant.kubeconfig), f'pvc = "{CLAIM}"', ""
