"""No module needs, at any time and be it for a type, a module that needs it: each can be read after those below it."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def modules() -> dict[str, Path]:
    found = {}
    for path in (ROOT / "shim").rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def needed(name: str, path: Path, known: dict[str, Path]) -> set[str]:
    """What the module imports of ours, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            whole = (f"{node.module}.{alias.name}" for alias in node.names)
            found.update(one if one in known else node.module for one in whole)
    return (found & known.keys()) - {name}


def circles(needs: dict[str, set[str]]) -> dict[str, set[str]]:
    """What is left when all that needs nothing more is taken away, again and again."""
    left = dict(needs)
    while bottom := [name for name, others in left.items() if not others & left.keys()]:
        for name in bottom:
            del left[name]
    return left


def test_a_circle_is_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}).keys() == {"a", "b", "c"}


def test_no_module_needs_itself() -> None:
    known = modules()
    assert "shim.main" in known
    assert circles({name: needed(name, path, known) for name, path in known.items()}) == {}
