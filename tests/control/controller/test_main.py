"""What a controller is made of, before it serves."""

from __future__ import annotations

import sys

import pytest

from shim.control.controller import main
from shim.core.errors import ShimError


def test_a_missing_package_is_named_to_those_who_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("shim.control.index.store", "shim.control.index.schema"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setitem(sys.modules, "sqlite_utils", None)  # as an interpreter without it answers
    with pytest.raises(ShimError, match="the Python package sqlite_utils is not installed for "):
        main._made()
