"""A root file system as an image that `ctr images import` takes: an OCI layout with one layer, no registry needed."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"


def write_image(layer: Path, target: Path, name: str, config: dict[str, Any]) -> None:
    """Write the image ``name`` to ``target``: the tar file ``layer`` and what a container starts with (``config``)."""
    blob = _file_digest(layer)
    settings = _json(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": config,
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{blob}"]},
        }
    )
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": _descriptor(CONFIG, settings),
            "layers": [{"mediaType": LAYER, "digest": f"sha256:{blob}", "size": layer.stat().st_size}],
        }
    )
    entry = {**_descriptor(MANIFEST, manifest), "annotations": {"io.containerd.image.name": name}}
    fresh = target.with_name(target.name + ".new")
    with tarfile.open(fresh, "w") as archive:
        _add(archive, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
        _add(archive, "index.json", _json({"schemaVersion": 2, "manifests": [entry]}))
        for content in (settings, manifest):
            _add(archive, f"blobs/sha256/{hashlib.sha256(content).hexdigest()}", content)
        archive.add(layer, f"blobs/sha256/{blob}", filter=_plain)
    fresh.replace(target)


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, sort_keys=True).encode()


def _descriptor(kind: str, content: bytes) -> dict[str, Any]:
    return {"mediaType": kind, "digest": f"sha256:{hashlib.sha256(content).hexdigest()}", "size": len(content)}


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    return entry


def _file_digest(path: Path) -> str:
    with path.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()
