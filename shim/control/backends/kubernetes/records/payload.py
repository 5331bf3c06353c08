"""A job's payload: the Secret with what its runs need and nobody else may read. Made with the record, never changed, gone with it."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from typing import Any

from shim.control.backends.kubernetes.objects import names
from shim.control.backends.kubernetes.records.record import JobRecord
from shim.core.model.job import Job
from shim.core.value import Value
from shim.job import kdf

Object = dict[str, Any]
SECRET_BYTES = 32
INLINE = 32 * 1024  # bytes of a packed working directory that travel with the job; more stays on the submitting machine
MOST = 1000 * 1024  # bytes that a Secret's data may have, with room for its frame


class Payload(Value):
    """``job`` as it was handed in; ``handed_in``: environment, limits and so on, as the submitting controller keeps them."""

    secret: bytes
    job: Job
    handed_in: dict[str, Any] = {}
    script: bytes | None = None
    groups: tuple[int, ...] = ()  # the submitter's, by the machine that it was submitted on
    words: dict[str, str] = {}  # … and what its configuration says of the job's pods
    stage: bytes | None = None  # the packed working directory, where it is small

    def key(self, record: str, run: int) -> bytes:
        """The key of a run: agents of other runs, and of a record that was made anew, have others."""
        return kdf.hkdf(self.secret, record.encode(), b"slurm-shim run %d" % run, kdf.KEY)


def manifest(payload: Payload, record: JobRecord) -> Object:
    """The Secret, owned by the record."""
    parts = {
        "job": payload.job.to_dict(),
        "handed_in": payload.handed_in,
        "groups": payload.groups,
        "words": payload.words,
    }
    told = json.dumps(parts, sort_keys=True).encode()
    data = {"secret": payload.secret, "submission": zlib.compress(told, 9)}
    if payload.script is not None:
        data["script"] = zlib.compress(payload.script, 9)
    if payload.stage is not None:
        data["stage"] = payload.stage
    labels = {names.MANAGED: names.MANAGER, names.KIND: names.PAYLOAD_KIND, names.JOB_ID: str(record.job_id)}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": record.payload, "labels": labels, "ownerReferences": [owned_by(record)]},
        "immutable": True,
        "data": {name: base64.b64encode(content).decode("ascii") for name, content in data.items()},
    }


def size(manifest: Object) -> int:
    """Bytes of a Secret's data."""
    return sum(len(base64.b64decode(text)) for text in manifest["data"].values())


def owned_by(record: JobRecord) -> Object:
    """The reference by which an object goes with the record."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": record.name, "uid": record.uid}


def is_of(found: Object, record: JobRecord) -> bool:
    """Whether the Secret was made with this very record, and not with one of the same name."""
    return any(owner.get("uid") == record.uid for owner in found["metadata"].get("ownerReferences") or ())


def parse(found: Mapping[str, Any]) -> Payload:
    """What a Secret holds. ValueError for one that is damaged."""
    data = {name: base64.b64decode(text) for name, text in (found.get("data") or {}).items()}
    try:
        told = json.loads(zlib.decompress(data["submission"]))
        return Payload(
            secret=data["secret"],
            job=Job.from_dict(told["job"]),
            handed_in=dict(told["handed_in"]),
            groups=tuple(told.get("groups", ())),
            words=dict(told.get("words", {})),
            script=zlib.decompress(data["script"]) if "script" in data else None,
            stage=data.get("stage"),
        )
    except (KeyError, TypeError, zlib.error) as problem:
        raise ValueError(f"secret {found['metadata']['name']}: {problem!r}") from problem
