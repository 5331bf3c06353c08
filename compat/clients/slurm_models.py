"""Reads documents by the models of a published client: ``slurm_models.py MODEL=FILE …``; prints what the models refuse or do not know."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any


def lost(given: Any, kept: Any, path: str = "") -> list[str]:
    """What of the document is not in what the models made of it."""
    if isinstance(given, dict) and isinstance(kept, dict):
        return [one for name, value in given.items() for one in lost(value, kept.get(name), f"{path}.{name}")]
    if isinstance(given, list) and isinstance(kept, list) and len(given) == len(kept):
        return [one for ours, theirs in zip(given, kept) for one in lost(ours, theirs, f"{path}[]")]
    return [] if given == kept else [f"{path}: {given!r} became {kept!r}"]


def main(words: list[str]) -> None:
    for word in words:
        model, _, file = word.partition("=")
        module = importlib.import_module(f"slurmrestapi.models.{model}")
        name = next(name for name in vars(module) if name.lower() == model.replace("_", ""))
        given = json.loads(Path(file).read_text())
        kept = json.loads(getattr(module, name).from_dict(given).to_json())
        for line in sorted(set(lost(given, kept))):
            print(f"{model}{line}")


if __name__ == "__main__":
    main(sys.argv[1:])
