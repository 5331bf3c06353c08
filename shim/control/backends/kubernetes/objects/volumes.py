"""The volumes of a pod: the agent's own, /dev/shm, the configured mounts, and a home where nothing is mounted there. Pure."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from shim.control.backends.base import BackendError
from shim.control.backends.kubernetes.settings import Settings
from shim.core.errors import ShimError
from shim.job.pod.places import ROOT, Places

_POD = Places(ROOT, "")
_KINDS = ("pvc", "host_path", "nfs", "csi", "config_map", "secret", "empty_dir")


class Volumes:
    """``volumes`` and ``mounts`` of the pod spec and its container."""

    def __init__(self, ticket: str, code: str, settings: Settings, memory: int) -> None:
        shm: dict[str, Any] = {"medium": "Memory"}
        size = settings.shm if settings.shm is not None else memory // 2
        if size:
            shm["sizeLimit"] = f"{size}Mi"
        self._settings = settings
        self.volumes: list[dict[str, Any]] = [
            {"name": "shim-agent", "configMap": {"name": code, "defaultMode": 0o444}},
            {"name": "shim-ticket", "secret": {"secretName": ticket, "defaultMode": 0o444}},
            {"name": "shim-run", "emptyDir": {}},
            {"name": "shim-shm", "emptyDir": shm},
        ]
        self.mounts: list[dict[str, Any]] = [
            {"name": "shim-agent", "mountPath": os.path.dirname(_POD.agent_zip), "readOnly": True},
            {"name": "shim-ticket", "mountPath": _POD.ticket, "readOnly": True},
            {"name": "shim-run", "mountPath": _POD.run},
            {"name": "shim-shm", "mountPath": "/dev/shm"},
        ]
        self.mounts.append(
            {
                "name": "shim-ticket",
                "mountPath": "/etc/profile.d/zz-slurm-shim.sh",
                "subPath": "profile.sh",
                "readOnly": True,
            }
        )
        for number, mount in enumerate(settings.mounts):
            self._add(f"mount-{number}", mount)

    def _add(self, name: str, mount: Mapping[str, Any]) -> None:
        self.volumes.append({"name": name, **_source(mount)})
        made = {"name": name, "mountPath": mount["path"]}
        if mount.get("sub_path"):
            made["subPath"] = mount["sub_path"]
        if mount.get("read_only"):
            made["readOnly"] = True
        self.mounts.append(made)

    def add_work(self, path: str) -> None:
        """An empty folder for a working directory that is not mounted. Not over what every image has."""
        if path not in ("", "/", "/tmp"):
            self.volumes.append({"name": "shim-work", "emptyDir": {}})
            self.mounts.append({"name": "shim-work", "mountPath": path})

    def add_folders(self, paths: Sequence[str]) -> None:
        """Empty folders for output."""
        for number, path in enumerate(paths):
            self.volumes.append({"name": f"shim-output-{number}", "emptyDir": {}})
            self.mounts.append({"name": f"shim-output-{number}", "mountPath": path})

    def add_identity(self) -> None:
        """The user's name for programs that ask for it."""
        for file in ("passwd", "group"):
            self.mounts.append({"name": "shim-ticket", "mountPath": f"/etc/{file}", "subPath": file, "readOnly": True})


def mounted(path: str, settings: Settings) -> bool:
    """Whether the path is the same file in the pods as here: it lies below a configured mount."""
    roots = [str(mount["path"]).rstrip("/") for mount in settings.mounts if not mount.get("empty_dir")]
    return any(path == root or path.startswith(root + "/") for root in roots)


def check_asked(mounts: str, settings: Settings) -> None:
    """``--container-mounts``: raises BackendError for a path that the pods do not have already, under the same name."""
    for one in mounts.split(",") if mounts else ():
        source, _, rest = one.partition(":")
        target = rest.partition(":")[0] or source
        if source != target or not mounted(source, settings):
            raise BackendError(
                f"--container-mounts={one}: pods mount what the configuration says (mounts), under the same path as here"
            )


def check(settings: Settings) -> None:
    """Raises ShimError for mounts that make no sense."""
    for mount in settings.mounts:
        path = mount.get("path") if isinstance(mount, Mapping) else None
        if not isinstance(path, str) or not path.startswith("/"):
            raise ShimError(f'error: mounts: every mount needs an absolute "path", not {mount!r}')
        kinds = [kind for kind in _KINDS if kind in mount]
        if len(kinds) != 1:
            raise ShimError(f'error: mounts: "{path}" needs one of {", ".join(_KINDS)}')
        unknown = set(mount) - {"path", "sub_path", "read_only", *_KINDS}
        if unknown:
            raise ShimError(f'error: mounts: "{path}": unknown word "{sorted(unknown)[0]}"')
        if kinds == ["nfs"] and ":" not in str(mount["nfs"]):
            raise ShimError(f'error: mounts: "{path}": bad nfs "{mount["nfs"]}": server:/path is wanted')


def _source(mount: Mapping[str, Any]) -> dict[str, Any]:
    if "pvc" in mount:
        return {"persistentVolumeClaim": {"claimName": mount["pvc"]}}
    if "host_path" in mount:
        return {"hostPath": {"path": mount["host_path"]}}
    if "nfs" in mount:
        server, _, path = str(mount["nfs"]).partition(":")
        return {"nfs": {"server": server, "path": path}}
    if "csi" in mount:
        return {"csi": mount["csi"]}
    if "config_map" in mount:
        return {"configMap": {"name": mount["config_map"]}}
    if "secret" in mount:
        return {"secret": {"secretName": mount["secret"]}}
    return {"emptyDir": mount["empty_dir"] if isinstance(mount["empty_dir"], Mapping) else {}}
