"""Where a cluster's jobs are: a kubeconfig, a context and a namespace, which stay in force while this home has runs there.

What kubectl is switched to (`kubectl config use-context`, `set-context --current --namespace`) is for whoever types next. A controller
that followed it would find none of its jobs where it looks, and take them for deleted.
"""

from __future__ import annotations

import json
import os

from shim.control import paths
from shim.control.backends.kubernetes.api import login
from shim.control.backends.kubernetes.api.access import Access
from shim.control.backends.kubernetes.api.errors import AccessError, NoContext
from shim.control.backends.kubernetes.run import run_folders
from shim.control.backends.kubernetes.settings import Settings, settings_of
from shim.core.model.cluster import Cluster
from shim.core.value import Value

_FILE = "place"


class Place(Value):
    """``context``: its name in ``kubeconfig`` (the file, or several); "": the pod's service account."""

    kubeconfig: str
    context: str
    namespace: str

    def __str__(self) -> str:
        context = f'context "{self.context}"' if self.context else "the cluster of the pod's service account"
        return f'{context}, namespace "{self.namespace}"'


async def find(cluster: Cluster) -> tuple[Access, Place]:
    """Access to where the cluster's jobs are; without jobs, to where the configuration and kubectl say. Asks the cluster nothing.

    Raises AccessError, also where the configuration says another place than its jobs', or where that is not found any more.
    """
    settings = settings_of(cluster)
    held = _noted(cluster.name) if run_folders.known(cluster.name) else None
    if held is None:
        access = await Access.load(settings.kubeconfig or None, settings.context or None)
        namespace = settings.namespace or access.namespace
        return access, Place(kubeconfig=access.kubeconfig, context=access.context, namespace=namespace)
    give_up = f"until they have ended, or remove {_path(cluster.name)} to give them up"
    others = _others(settings, held)
    if others:
        raise AccessError(
            f"its jobs are in {held}, and the configuration says {' and '.join(others)}: set it back {give_up}"
        )
    try:
        access = await Access.load(settings.kubeconfig or held.kubeconfig or None, held.context)
        return access, held.replace(kubeconfig=access.kubeconfig)
    except NoContext as problem:
        raise AccessError(
            f"its jobs are in {held}, but {problem}: see that it is found (or configure another kubeconfig) {give_up}"
        ) from problem


def elsewhere(settings: Settings, held: Place, access: Access) -> str:
    """What kubectl does now, where the configuration leaves it to that, if it is elsewhere than ``held``; else ""."""
    files = os.pathsep.join(login.files(settings.kubeconfig or None))
    if files != held.kubeconfig:
        return f'reads kubeconfig "{files}"' if files else "finds no kubeconfig"
    current = (access.context, access.namespace) if settings.context else access.current
    if current is None:
        return "names no current context"
    now = held.replace(context=current[0], namespace=settings.namespace or current[1])
    return "" if now == held else f"is now in {now}"


def note(cluster: str, place: Place) -> None:
    """Keeps where the cluster's jobs are, for those who look for them later: before there is a ticket. Raises AccessError."""
    if _noted(cluster) == place:
        return
    try:
        paths.ensure(run_folders.folder_of(cluster))
        run_folders.write(_path(cluster), json.dumps(place.to_dict()))
    except OSError as problem:
        raise AccessError(f"{_path(cluster)}: {problem.strerror}") from problem


def _noted(cluster: str) -> Place | None:
    try:
        with open(_path(cluster)) as file:
            return Place.from_dict(json.load(file))
    except (FileNotFoundError, ValueError):
        return None
    except OSError as problem:
        raise AccessError(f"{_path(cluster)}: {problem.strerror}") from problem


def _others(settings: Settings, held: Place) -> list[str]:
    """What the configuration says that is not so where the jobs are."""
    says = (
        ("kubeconfig", settings.kubeconfig, settings.kubeconfig if held.context else ""),
        ("context", settings.context, held.context),
        ("namespace", settings.namespace, held.namespace),
    )
    return [f'{word} "{value}"' for word, value, there in says if value not in ("", there)]


def _path(cluster: str) -> str:
    return os.path.join(run_folders.folder_of(cluster), _FILE)
