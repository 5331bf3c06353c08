"""The agent's code as one archive for a ConfigMap, and the command line of a container that runs it.

The archive holds the sources of the packages core, job, commands and inside (docs/internals/pods.md), and for this interpreter's version the byte
code of what agents and steps load: an image with the same Python has no more to unpack, any other from 3.9 on compiles what
it needs. The same sources and interpreter give the same bytes, so that all users of a version share one ConfigMap in a namespace.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.util
import io
import marshal
import os
import re
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Iterator, Mapping

import shim
from shim.core.value import Value
from shim.job.pod import places

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(shim.__file__)))
MOST = 1000 * 1024  # bytes; a ConfigMap takes 1 MiB, and base64 is not counted
_PACKAGES = ("shim/core", "shim/job", "shim/commands", "shim/inside")
# In a pod there is no controller: what commands ask of control is answered by this package, under control's name.
_RENAMED = ("shim/inside/", "shim/control/")
_SINGLE = ("shim/__init__.py", "shim/dispatch.py", "shim/main.py", "shim/control/index/query.py")
# These, and all that they may import.
_PRECOMPILED = ("shim.job.pod.main", "shim.job.pod.modules", "shim.job.pod.relay", "shim.main", "shim.commands.srun")
_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+(\.*[\w.]*)[ \t]+import[ \t]+(\([^)]*\)|[^\n]*)|import[ \t]+([^\n]*))", re.MULTILINE
)
_NAME = re.compile(r"[\w.]+")
# Without docstrings, a sixth of it. Later formats of marshal depend on who else holds a string.
_COMPILE = """\
import marshal, sys
given = marshal.loads(sys.stdin.buffer.read())
made = {name: marshal.dumps(compile(source, path, "exec", dont_inherit=True, optimize=2), 2) for name, (path, source) in given.items()}
sys.stdout.buffer.write(marshal.dumps(made))
"""
_BEGINNING = (1980, 1, 1, 0, 0, 0)  # the time of every file
# Tried in this order. "python" last: it may be a Python 2.
INTERPRETERS = (
    "python3",
    "/usr/bin/python3",
    "/usr/local/bin/python3",
    "/opt/conda/bin/python3",
    "/opt/venv/bin/python3",
    "/usr/libexec/platform-python",
    *(f"python3.{minor}" for minor in range(15, 8, -1)),
)
NO_PYTHON = "the image has no python3: slurm-shim's agent needs Python 3.9 or later in the image (docs/kubernetes.md)"
_SHELL = """\
trap 'exit 143' TERM
boot=$0
while [ $# -gt 0 ]; do
    python=$1
    shift
    command -v "$python" >/dev/null 2>&1 && exec "$python" -I -S -c "$boot" "$@"
done
if command -v python >/dev/null 2>&1 && python -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null; then
    exec python -I -S -c "$boot"
fi
text='{text}'
echo "$text" >"${{SHIM_POD_ROOT:-/dev}}/termination-log"
echo "$text" >&2
exit 127
"""


class Bundle(Value):
    """``archive``: the bytes of agent.zip; ``digest``: their SHA-256, hex."""

    archive: bytes
    digest: str


_made: list[Bundle] = []


def bundle() -> Bundle:
    """This installation's; made once in a process (0.3 s). OSError."""
    if not _made:
        archive = _archive(ROOT)
        _made.append(Bundle(archive=archive, digest=hashlib.sha256(archive).hexdigest()))
    return _made[0]


def container_command() -> list[str]:
    """The command of the container ``agent``: finds an interpreter, checks the archive, runs it.

    Exit codes of its own: 127 no fitting Python, 126 the archive is not the right one; with the reason as termination message.
    """
    shell = _SHELL.format(text=NO_PYTHON.replace("'", ""))
    return ["/bin/sh", "-c", shell, _boot_text(), *INTERPRETERS]


def relay_command() -> list[str]:
    """The command for pods/exec that reaches the leader of a pod: frames on stdin and stdout."""
    return [places.Places(places.ROOT, "").relay]


@functools.cache
def _boot_text() -> str:
    """The source of ``shim.job.pod.boot``, without what only a reader needs."""
    with open(os.path.join(ROOT, "shim/job/pod/boot.py"), encoding="utf-8") as file:
        tree = ast.parse(file.read())
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.FunctionDef)) and ast.get_docstring(node) is not None:
            del node.body[0]
    return ast.unparse(tree)


def _archive(root: str) -> bytes:
    sources: dict[str, bytes] = {}
    for name in sorted([*_SINGLE, *_sources(root)]):
        with open(os.path.join(root, name), "rb") as file:
            sources[name.replace(*_RENAMED)] = file.read()
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        for name, source in sources.items():
            _add(archive, name, source)
    outer = io.BytesIO()
    with zipfile.ZipFile(outer, "w") as archive:
        # Packed as one: the files have much in common.
        _add(archive, "code.zip", inner.getvalue(), zipfile.ZIP_DEFLATED)
        _add(archive, f"{importlib.util.MAGIC_NUMBER.hex()}.code", _stock(sources), zipfile.ZIP_DEFLATED)
    content = outer.getvalue()
    if len(content) > MOST:
        raise OSError(f"the agent's archive has {len(content)} bytes: more than {MOST} do not fit a ConfigMap")
    return content


def _stock(sources: Mapping[str, bytes]) -> bytes:
    """What ``shim.job.pod.modules`` makes modules of. OSError."""
    files = {_module(name): name for name in sources}
    wanted: set[str] = set()
    following = list(_PRECOMPILED)
    while following:
        module = following.pop()
        if module in files and module not in wanted:
            wanted.add(module)
            parent = module.rpartition(".")[0]
            package = module if _is_package(files[module]) else parent
            following += [parent, *_imported(sources[files[module]].decode("utf-8"), package)]
    given = {
        module: (f"{places.ROOT}/run/code/tree/{files[module]}", sources[files[module]]) for module in sorted(wanted)
    }
    codes = {module: (_is_package(files[module]), code) for module, code in _compiled(given).items()}
    return marshal.dumps((codes, tuple(sorted(files.keys() - wanted))), 2)


def _module(file: str) -> str:
    return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _is_package(file: str) -> bool:
    return file.endswith("/__init__.py")


def _imported(source: str, package: str) -> Iterator[str]:
    """Names that may be modules', of all imports of a module in ``package``, those in functions too. (A syntax tree takes a second.)"""
    for base, names, whole in _IMPORT.findall(source):
        if whole:
            yield from _NAME.findall(whole)
            continue
        module = importlib.util.resolve_name(base, package)
        yield module
        yield from (f"{module}.{name}" for name in _NAME.findall(names))


def _compiled(given: dict[str, tuple[str, bytes]]) -> dict[str, bytes]:
    """The byte code of each path and source, by an interpreter that leaves out which column an expression is in: a quarter of it. OSError.

    Without docstrings and assertions, which nobody asks for there: a tenth of the archive.
    """
    command = [sys.executable, "-I", "-S", "-X", "no_debug_ranges", "-c", _COMPILE]
    done = subprocess.run(command, input=marshal.dumps(given), capture_output=True, check=False)
    if done.returncode:
        raise OSError(f"the agent's code cannot be compiled: {done.stderr.decode(errors='replace')}")
    codes: dict[str, bytes] = marshal.loads(done.stdout)
    return codes


def _sources(root: str) -> list[str]:
    found = []
    for package in _PACKAGES:
        for folder, folders, names in os.walk(os.path.join(root, package)):
            folders[:] = [name for name in folders if name != "__pycache__"]
            found += [os.path.relpath(os.path.join(folder, name), root) for name in names if name.endswith(".py")]
    return found


def _add(archive: zipfile.ZipFile, name: str, content: bytes, how: int = zipfile.ZIP_STORED) -> None:
    info = zipfile.ZipInfo(name, _BEGINNING)
    info.compress_type = how
    archive.writestr(info, content, compresslevel=zlib.Z_BEST_COMPRESSION)
