"""setuptools' step that adds the manual pages and completion to a wheel (pyproject.toml: cmdclass). An editable installation has none."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parents[2]


class BuildWithPages(build_py):
    """Makes the files of ``data_files`` before setuptools installs what the wheel is packed of."""

    def run(self) -> None:
        """Copies the modules, as always, and makes the files."""
        super().run()
        if self.editable_mode:
            return
        sys.path.insert(0, str(ROOT))  # the sources that are built, not an installed shim
        import typer.main

        from shim.admin import data_files
        from shim.admin.app import app

        prefix = Path(self.get_finalized_command("build").build_base) / "data"
        folders: dict[str, list[str]] = {}
        for name in data_files.write(prefix, typer.main.get_command(app)):
            folders.setdefault(os.path.dirname(name), []).append(str(prefix / name))
        self.distribution.data_files = [*(self.distribution.data_files or ()), *folders.items()]
