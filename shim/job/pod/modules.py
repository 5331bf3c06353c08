"""Our modules in a pod: byte code out of one file, made by the interpreter's own version; the sources of all others beside it.

Files in hundreds cost a pod more time than the agent needs for all else before the script. A module that is not in the file (a command
that jobs seldom call) has the sources unpacked, once, and comes from there.
"""

from __future__ import annotations

import os
import sys
from _frozen_importlib import ModuleSpec
from marshal import loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    # By name: whether it is a package, its byte code. And the names of the modules of which there is the source alone.
    Stock = tuple[dict[str, tuple[bool, bytes]], Sequence[str]]

FILE = "modules"  # of a Stock, as marshal has it
SOURCES = "sources"  # a zip archive, deflated once more
TREE = "tree"  # the sources, unpacked


class Modules:
    """A finder and loader. ``folder``: the pod's code folder."""

    def __init__(self, stock: Stock, folder: str) -> None:
        self._codes, self._others = stock
        self._folder = folder
        self._tree = f"{folder}/{TREE}"

    def find_spec(
        self, name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """As a meta path's finder."""
        found = self._codes.get(name)
        if found is None:
            if name in self._others and not os.path.isdir(self._tree):
                self._unpack()
            return None  # the path of its package leads to the tree
        path = f"{self._tree}/{name.replace('.', '/')}"
        spec = ModuleSpec(name, self, origin=f"{path}/__init__.py" if found[0] else f"{path}.py", is_package=found[0])  # type: ignore[arg-type]  # a loader by its methods
        if spec.submodule_search_locations is not None:
            spec.submodule_search_locations.append(path)
        return spec

    def create_module(self, _spec: ModuleSpec) -> None:
        """As usual."""

    def exec_module(self, module: ModuleType) -> None:
        """Runs the module's code."""
        exec(loads(self._codes[module.__name__][1]), module.__dict__)  # the archive's digest was checked

    def _unpack(self) -> None:
        import io
        import zipfile
        import zlib

        with open(f"{self._folder}/{SOURCES}", "rb") as file:
            data = zlib.decompress(file.read(), -15)
        own = f"{self._tree}.{os.getpid()}"  # several commands may be at it
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            archive.extractall(own)
        try:
            os.rename(own, self._tree)
        except OSError:
            if not os.path.isdir(self._tree):
                raise
            import shutil

            shutil.rmtree(own)  # another one was first
        for path in [path for path in sys.path_importer_cache if path.startswith(self._tree)]:
            del sys.path_importer_cache[path]  # that it was not there is remembered


def install(stock: Stock, folder: str) -> None:
    """Modules come from ``stock`` from now on."""
    sys.meta_path.insert(0, Modules(stock, folder))
