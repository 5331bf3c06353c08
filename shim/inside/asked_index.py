"""No other user's index is asked from inside a run: ``paths.anothers`` tells of none."""

from __future__ import annotations

from .index.reader import Reader as AskedReader

__all__ = ["AskedReader"]
