"""Node names inside a job on one machine: a mount and a UTS namespace per node, with no change to the machine.

Inside, ``/etc/hosts`` also knows the nodes' names, ``hostname`` answers the node's name, and a login shell finds our command folder first
on PATH (``/etc/profile`` sets PATH anew; ours runs the real one first). A running nscd would answer from its own view: its socket is
hidden. Mounts made outside still appear inside, never the other way.

Whether a machine allows this is decided by trying (``probe``), not by the uid: as root, or with a user namespace that keeps the own uid and
gid. In the latter set-uid programs (sudo, ping of old) have no more rights than the user.
"""

from __future__ import annotations

import os

from shim.job import libc

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from typing import Mapping
else:
    import _signal as signal

NAMESPACES = "namespaces"
ADDRESSES = "addresses"
_PROBE_NAME = "shim-probe-node"
_PROBE_LIMIT = 5.0  # seconds
_NSCD = ("/run/nscd", "/var/run/nscd")


def prepare(folder: str, addresses: Mapping[str, str], commands: str, head: str = "# a virtual node") -> None:
    """Write the files that nodes mount into ``folder`` (made when missing): node name -> address, our command folder. OSError.

    ``head``: the first line of their ``/etc/hosts``, a comment. Nodes that run already keep what they have mounted.
    """
    os.makedirs(folder, mode=0o755, exist_ok=True)
    nodes = [f"{address}\t{name}" for name, address in addresses.items()]
    outside = [
        line for line in _text("/etc/hosts").split("\n") if line not in (head, *nodes)
    ]  # the caller may be on such a node
    _write(folder, "hosts", "\n".join([head, *outside]).rstrip("\n") + "\n" + "".join(line + "\n" for line in nodes))
    # Their own files are mounted on these two, so that the real profile stays within reach and a folder can be hidden.
    _write(folder, "profile.system", "")
    os.makedirs(os.path.join(folder, "empty"), exist_ok=True)
    _write(
        folder,
        "profile",
        f"if [ -r {_quoted(folder)}/profile.system ]; then . {_quoted(folder)}/profile.system; fi\n"
        f'PATH={_quoted(commands)}"${{PATH:+:$PATH}}"\nexport PATH\n',
    )
    switch = _text("/etc/nsswitch.conf")
    if switch:
        _write(folder, "nsswitch.conf", _files_first(switch))


def enter(folder: str, name: str) -> None:
    """Put the calling process, and all that it starts, on node ``name``. OSError that says what the machine refuses.

    The process must have one thread.
    """
    try:
        libc.unshare(libc.CLONE_NEWNS | libc.CLONE_NEWUTS)
    except OSError:
        _unshare_user()
    libc.mount("none", "/", libc.MS_REC | libc.MS_SLAVE)
    libc.mount(os.path.join(folder, "hosts"), "/etc/hosts", libc.MS_BIND)
    if os.path.exists(os.path.join(folder, "nsswitch.conf")) and os.path.exists("/etc/nsswitch.conf"):
        libc.mount(os.path.join(folder, "nsswitch.conf"), "/etc/nsswitch.conf", libc.MS_BIND)
    if os.path.exists("/etc/profile"):
        libc.mount("/etc/profile", os.path.join(folder, "profile.system"), libc.MS_BIND)
        libc.mount(os.path.join(folder, "profile"), "/etc/profile", libc.MS_BIND)
    for nscd in _NSCD:
        if os.path.isdir(nscd) and not os.path.islink(os.path.dirname(nscd)):
            libc.mount(os.path.join(folder, "empty"), nscd, libc.MS_BIND)
    libc.sethostname(name)


def probe(folder: str | None = None) -> tuple[str, str]:
    """How node names are made to resolve on this machine: ("namespaces", how) or ("addresses", why not). Tries it in a child.

    ``folder``: where to put the files of the trial; a temporary one when None.
    """
    if folder is None:
        import tempfile

        with tempfile.TemporaryDirectory(prefix="shim-probe-") as made:
            return probe(made)
    try:
        prepare(folder, {_PROBE_NAME: "127.0.0.99"}, folder)
        answers, tell = os.pipe2(os.O_CLOEXEC)
    except OSError as error:
        return ADDRESSES, f"no room to try: {error.strerror}"
    pid = os.fork()
    if pid == 0:
        try:
            signal.setitimer(
                signal.ITIMER_REAL, _PROBE_LIMIT
            )  # a name service that hangs ends the trial, not the caller
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            os.write(tell, _try(folder).encode("utf-8", "replace"))
        finally:
            os._exit(0)
    os.close(tell)
    with open(answers, encoding="utf-8") as file:
        answer = file.read()
    os.waitpid(pid, 0)
    word, _, text = answer.partition(" ")
    return (NAMESPACES, text) if word == "yes" else (ADDRESSES, text or "the trial died")


def _try(folder: str) -> str:
    """In the child: "yes" and how, or "no" and why not."""
    outside = os.readlink("/proc/self/ns/user")
    try:
        enter(folder, _PROBE_NAME)
    except OSError as error:
        return f"no {error.strerror or error}"
    if os.uname().nodename != _PROBE_NAME:
        return "no the host name stayed as it was"
    import socket

    try:
        # As bytes: a name as text goes through the IDNA codec, which is dear to load.
        address = socket.getaddrinfo(_PROBE_NAME.encode("ascii"), None, socket.AF_INET)[0][4][0]
    except OSError as error:
        return f"no a name in /etc/hosts does not resolve: {error.strerror or error}"
    if address != "127.0.0.99":
        return f"no a name in /etc/hosts resolves to {address}"
    user = os.readlink("/proc/self/ns/user") != outside
    return "yes mount and UTS namespaces" + (" in a user namespace" if user else "")


def _unshare_user() -> None:
    uid, gid = os.getuid(), os.getgid()
    libc.unshare(libc.CLONE_NEWUSER | libc.CLONE_NEWNS | libc.CLONE_NEWUTS)
    # The kernel maps a gid for a process without privilege only after it has given up changing its groups.
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)


def _files_first(switch: str) -> str:
    """nsswitch.conf with /etc/hosts asked before anything else: systemd-resolved, say, sees the machine's file, not the node's."""
    lines = []
    for line in switch.splitlines():
        if line.strip().startswith("hosts:"):
            others = [word for word in line.split(":", 1)[1].split() if word != "files"]
            line = "hosts: files " + " ".join(others)
        lines.append(line)
    return "\n".join(lines) + "\n"


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def _write(folder: str, name: str, text: str) -> None:
    path = os.path.join(folder, name)
    if _text(path) == text and os.path.exists(path):
        return  # a node may have it mounted
    new = f"{path}.{os.getpid()}.new"
    with open(new, "w", encoding="utf-8", errors="surrogateescape") as file:
        os.fchmod(
            file.fileno(), 0o644
        )  # they stand for /etc/hosts and its like: a job of root's may go on as somebody else
        file.write(text)
    os.replace(new, path)


def _quoted(path: str) -> str:
    """``path`` as one word of a shell."""
    return "'" + path.replace("'", "'\\''") + "'"
