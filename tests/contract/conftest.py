"""The real cluster that the suite runs on too where there is one."""

from __future__ import annotations

from tests.control.backends.kubernetes.real import kubeconfig, namespace

__all__ = ["kubeconfig", "namespace"]
