"""YAML, read and written with PyYAML, which comes with the package kubernetes. Imported only by who needs it."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any


def dump(objects: Sequence[object]) -> str:
    """The objects as documents; texts of several lines as blocks, mappings in their order."""
    yaml = importlib.import_module("yaml")  # it says nothing of its types

    class Dumper(yaml.SafeDumper):  # type: ignore[name-defined, misc]
        def ignore_aliases(self, data: object) -> bool:
            return True

    def text(dumper: Any, data: str) -> Any:
        style = "|" if "\n" in data else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", data, style=style)

    Dumper.add_representer(str, text)
    return str(yaml.dump_all(objects, Dumper=Dumper, sort_keys=False, width=120, allow_unicode=True))


def load(text: str) -> list[Any]:
    """The documents. ValueError, with what is wrong and where, for a text that is no YAML."""
    yaml = importlib.import_module("yaml")
    try:
        return list(yaml.safe_load_all(text))
    except yaml.YAMLError as problem:
        raise ValueError(" ".join(str(problem).split())) from None
    except RecursionError:
        raise ValueError("more levels than can be read") from None
