"""What a run's folder holds from the start (``spec``), for those who need little of it."""

from __future__ import annotations

from shim.core.jsonlite import loads
from shim.job import rawfile

SPEC = "spec.json"
KEY = "key"  # a file, or a member of spec.json
JOURNAL = "journal"  # where the leader is
ENVIRONMENT = "environment"  # a file with .json behind it, or a member of spec.json


def read_key(run_dir: str) -> bytes:
    """The run's secret. OSError or ValueError where there is none."""
    try:
        text = rawfile.read(f"{run_dir}/{KEY}").decode("ascii")
    except FileNotFoundError:
        text = loads(rawfile.read(f"{run_dir}/{SPEC}")).get(KEY, "")
    return bytes.fromhex(text)
