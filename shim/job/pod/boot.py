"""The first code of the agent's container, passed to the interpreter as text (python3 -c), not imported by anything.

Any Python 3 must be able to read it: it may find itself in one that is too old for all the rest. Its arguments are the
interpreters to be tried after this one. It checks the archive's digest, makes the modules in it importable, and is then the agent.
"""

import gc
import os
import sys
from _signal import SIGTERM, signal  # type: ignore[import-not-found]  # the module signal takes longer to load

ROOT = os.environ.get("SHIM_POD_ROOT") or "/opt/shim"
OWN = os.environ.get("SHIM_POD_ROOT") or "/dev"


def end_at_once(*_: object) -> None:
    """The first process of a pod is never ended by a TERM that it does not ask for: it would hold its node for the grace period."""
    end("the pod was ended before its agent began", 143)  # ending.UNBEGUN


def end(text: str, code: int) -> None:
    """Says where Kubernetes shows it why there is no agent, and ends."""
    for name in (OWN + "/termination-log", "/dev/stderr"):
        try:
            with open(name, "w") as file:
                file.write(text + "\n")
        except OSError:
            continue
    os._exit(code)


def next_interpreter() -> None:
    """Becomes the next one that is there."""
    with open("/proc/self/cmdline", "rb") as file:
        source = file.read().split(b"\0")[4]
    others = sys.argv[1:]
    while others:
        name = others.pop(0)
        try:
            os.execvp(name, [name, "-I", "-S", "-c", source.decode(), *others])
        except OSError:
            continue
    end("the image's Python is " + sys.version.split()[0] + ": slurm-shim needs python3, version 3.9 or later", 127)


def sha256(data: bytes) -> str:
    """Hex. By the interpreter's bare module: OpenSSL takes 10 ms to load."""
    for name in ("_sha2", "_sha256"):
        try:
            return __import__(name).sha256(data).hexdigest()  # type: ignore[no-any-return]
        except ImportError:
            continue
    import hashlib

    return hashlib.sha256(data).hexdigest()


def files_of(data: bytes):  # type: ignore[no-untyped-def]  # Iterator would have to be imported
    """Name and content, as it is packed, of each file in a zip archive. The module zipfile takes longer to load than all of this."""
    from _struct import unpack_from

    count, _, at = unpack_from("<HLL", data, data.rindex(b"PK\5\6") + 10)
    for _ in range(count):
        packed, _, name, extra, comment = unpack_from("<LLHHH", data, at + 20)
        (local,) = unpack_from("<L", data, at + 42)
        begin = local + 30 + sum(unpack_from("<HH", data, local + 26))
        yield data[at + 46 : at + 46 + name].decode("ascii"), data[begin : begin + packed]
        at += 46 + name + extra + comment


def write(path: str, content: bytes) -> None:
    """Makes a file."""
    with open(path, "wb", 0) as file:
        file.write(content)


def unpack(data: bytes, folder: str) -> None:
    """Makes the files of an archive in which nothing is packed."""
    made = set()
    for name, content in files_of(data):
        path = folder + "/" + name
        parent = path.rpartition("/")[0]
        if parent not in made:
            os.makedirs(parent, 0o755, exist_ok=True)
            made.add(parent)
        write(path, content)


def prepare(data: bytes, folder: str) -> None:
    """Makes the modules in the archive importable: the byte code if it is for this interpreter, else the sources."""
    from _frozen_importlib_external import MAGIC_NUMBER
    from marshal import loads
    from zlib import decompress

    parts = dict(files_of(data))
    os.makedirs(folder, 0o755, exist_ok=True)
    packed = parts.get(MAGIC_NUMBER.hex() + ".code")
    if packed is None:
        unpack(decompress(parts["code.zip"], -15), folder + "/tree")
        sys.path.insert(0, folder + "/tree")
        return
    modules = decompress(packed, -15)
    write(folder + "/sources", parts["code.zip"])
    write(folder + "/modules", modules)
    stock = loads(modules)
    names = {"__name__": "shim.job.pod.modules"}
    exec(loads(stock[0]["shim.job.pod.modules"][1]), names)
    names["install"](stock, folder)  # type: ignore[operator]


def main() -> None:
    """Does not return."""
    signal(SIGTERM, end_at_once)
    if sys.version_info < (3, 9):  # noqa: UP036 - it is whatever python3 the image has
        next_interpreter()
    gc.disable()  # to look for garbage among modules costs a seventh of their loading
    try:
        with open(ROOT + "/agent/agent.zip", "rb") as file:
            data = file.read()
        if sha256(data) != os.environ.get("SHIM_AGENT_DIGEST"):
            end("the agent's code in the ConfigMap is not what this job was submitted with", 126)
        prepare(data, ROOT + "/run/code")
    except OSError as error:
        end("the agent's code cannot be unpacked: " + str(error), 126)
    from shim.job.pod.main import agent

    gc.enable()
    agent()


if __name__ == "__main__":
    main()
