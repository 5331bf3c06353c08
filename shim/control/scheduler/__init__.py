"""Which pending jobs start now, why the others wait, and when they are expected to start. Pure: no state, no I/O."""

from __future__ import annotations

from shim.control.scheduler.one_pass import Plan
from shim.control.scheduler.plan import plan

__all__ = ["Plan", "plan"]
