"""Where jobs run. Backends do not import each other; the controller knows them by ``base`` alone."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.control.backends.base import Backend
    from shim.core.model.cluster import Cluster


def make(cluster: Cluster) -> Backend:
    """The backend of a cluster as configured. A backend's own dependencies are imported here and not before."""
    if cluster.backend == "local":
        from shim.control.backends.local.backend import LocalBackend

        return LocalBackend(cluster)
    if cluster.backend == "kubernetes":
        from shim.control.backends.kubernetes.backend import KubernetesBackend

        return KubernetesBackend(cluster)
    raise ValueError(f"cluster {cluster.name}: no backend {cluster.backend!r}")
