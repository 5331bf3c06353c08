"""The result of `shim check -r` as text, JSON, HTML (one file, without scripts) and SARIF 2.1.0 (for code scanning)."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

from shim import __version__
from shim.admin.script_tree import APPROXIMATED, KINDS, OUTCOMES, UNCHANGED, Checked, Finding, Tree

_NAMED = 3  # scripts that the text names for each finding
_SERIOUS = ("broken", "refused", "unsupported", "waiting", "failing")
_SARIF = "https://json.schemastore.org/sarif-2.1.0.json"
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem }
table { border-collapse: collapse; margin: 1rem 0; width: 100% }
td, th { border-bottom: 1px solid #ccc; padding: .3rem .6rem; text-align: left; vertical-align: top }
td.n { text-align: right; white-space: nowrap }
code { font-family: ui-monospace, monospace; overflow-wrap: anywhere }
"""


def as_text(tree: Tree) -> str:
    """For a terminal: the sums, what is found most often, and each script that cannot run as it is."""
    return "".join(line + "\n" for line in _text(tree))


def _text(tree: Tree) -> Iterator[str]:
    yield f"{_number(len(tree.scripts), 'batch script')} below {tree.folder} ({_number(tree.others, 'other file')}), on cluster {tree.cluster}"
    for outcome, number in tree.outcomes().items():
        yield f"{number:8} {outcome} ({100 * number / len(tree.scripts):.1f} %)"
    frequent = tree.by_frequency()
    if frequent:
        yield ""
        yield "By frequency:"
    for kind, text, names in frequent:
        more = f", and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        yield f"{len(names):8} {kind}: {text}"
        yield f"{'':9}{', '.join(_below(tree, name) for name in names[:_NAMED])}{more}"
    for one in tree.scripts:
        if one.outcome not in (UNCHANGED, APPROXIMATED):
            yield ""
            yield f"{_below(tree, one.name)}: {one.outcome}"
            for finding in one.findings:
                yield f"    {_where(finding)}{finding.kind}: {finding.text}"


def as_json(tree: Tree) -> str:
    """For programs."""
    content = {
        "version": __version__,
        "folder": tree.folder,
        "cluster": tree.cluster,
        "other_files": tree.others,
        "outcomes": tree.outcomes(),
        "by_frequency": [
            {"kind": kind, "text": text, "scripts": [_below(tree, name) for name in names]}
            for kind, text, names in tree.by_frequency()
        ],
        "scripts": [
            {
                "name": _below(tree, one.name),
                "outcome": one.outcome,
                "findings": [{"kind": each.kind, "line": each.line, "text": each.text} for each in one.findings],
            }
            for one in tree.scripts
        ],
    }
    return json.dumps(content, indent=2) + "\n"


def as_html(tree: Tree) -> str:
    """A page that needs nothing else."""
    return "\n".join(_page(tree)) + "\n"


def _page(tree: Tree) -> Iterator[str]:
    title = f"{_number(len(tree.scripts), 'batch script')} on cluster {html.escape(tree.cluster)}"
    yield f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style></head><body>'
    yield f"<h1>{title}</h1><p>Below <code>{html.escape(tree.folder)}</code>; {_number(tree.others, 'other file')}.</p><table>"
    for outcome, number in tree.outcomes().items():
        yield f'<tr><td class="n">{number}</td><td>{outcome}</td><td class="n">{100 * number / len(tree.scripts):.1f} %</td></tr>'
    yield "</table><h2>By frequency</h2><table><tr><th>scripts</th><th>what</th><th></th></tr>"
    for kind, text, names in tree.by_frequency():
        listed = "".join(f"<li><code>{html.escape(_below(tree, name))}</code></li>" for name in names)
        yield f'<tr><td class="n">{len(names)}</td><td title="{html.escape(KINDS[kind])}">{kind}</td>'
        yield f"<td><details><summary>{html.escape(text)}</summary><ul>{listed}</ul></details></td></tr>"
    yield "</table>"
    for outcome in reversed(OUTCOMES):
        there = [one for one in tree.scripts if one.outcome == outcome]
        if there:
            yield f"<h2>{outcome}: {len(there)}</h2><table>"
            yield from (_row(tree, one) for one in there)
            yield "</table>"
    yield "</body></html>"


def _row(tree: Tree, one: Checked) -> str:
    told = "<br>".join(html.escape(f"{_where(each)}{each.kind}: {each.text}") for each in one.findings)
    return f"<tr><td><code>{html.escape(_below(tree, one.name))}</code></td><td>{told}</td></tr>"


def as_sarif(tree: Tree) -> str:
    """For what shows findings in code, in the static analysis results interchange format 2.1.0; paths are relative to where it was run."""
    rules = list(KINDS)
    run = {
        "tool": {
            "driver": {
                "name": "shim check",
                "version": __version__,
                "rules": [
                    {"id": kind, "shortDescription": {"text": meaning}, "defaultConfiguration": {"level": _level(kind)}}
                    for kind, meaning in KINDS.items()
                ],
            }
        },
        "columnKind": "unicodeCodePoints",
        "results": [
            {
                "ruleId": finding.kind,
                "ruleIndex": rules.index(finding.kind),
                "level": _level(finding.kind),
                "message": {"text": finding.text},
                "locations": [{"physicalLocation": _location(one.name, finding)}],
            }
            for one in tree.scripts
            for finding in one.findings
        ],
    }
    return json.dumps({"$schema": _SARIF, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _location(name: str, finding: Finding) -> dict[str, Any]:
    path = os.path.normpath(name)
    uri = quote(os.fsencode(path)) if not os.path.isabs(path) else "file://" + quote(os.fsencode(path))
    return {"artifactLocation": {"uri": uri}, "region": {"startLine": finding.line or 1}}


def _level(kind: str) -> str:
    if kind in _SERIOUS:
        return "error"
    return "note" if kind == "approximated" else "warning"


def _below(tree: Tree, name: str) -> str:
    return os.fsencode(os.path.relpath(name, tree.folder)).decode(errors="backslashreplace")


def _where(finding: Finding) -> str:
    return f"line {finding.line}: " if finding.line else ""


def _number(count: int, word: str) -> str:
    return f"{count} {word}" + ("" if count == 1 else "s")


FORMATS: dict[str, Callable[[Tree], str]] = {"text": as_text, "json": as_json, "html": as_html, "sarif": as_sarif}
