"""The host's way to the API server: listens on 127.0.0.1, connects from inside the control plane's network namespace.

``forwarder.py PID PORT HOST PORT``: PID is a process in that namespace. A socket belongs to the namespace in which it was
made, so the listening one is opened first.
"""

from __future__ import annotations

import ctypes
import os
import socket
import sys
import threading

CLONE_NEWNET = 0x40000000


def enter_network(pid: int) -> None:
    """Move this process into the network namespace of ``pid`` (os.setns came with Python 3.12)."""
    libc = ctypes.CDLL(None, use_errno=True)
    namespace = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    if libc.setns(namespace, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns failed")
    os.close(namespace)


def copy(source: socket.socket, target: socket.socket) -> None:
    """Pass on bytes until they end; then the other side hears that, and may still answer. What breaks ends both."""
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # it is the one that broke


def join(near: socket.socket, host: str, port: int) -> None:
    """Join one connection with one to ``host:port``; returns when both directions have ended."""
    with near:
        try:
            far = socket.create_connection((host, port), timeout=10)
        except OSError:
            return
        with far:
            far.settimeout(None)
            for end in (near, far):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            back = threading.Thread(target=copy, args=(far, near), daemon=True)
            back.start()
            copy(near, far)
            back.join()


def main(pid: int, port: int, host: str, inner_port: int) -> None:
    """Listen, enter the namespace, serve until killed."""
    with socket.create_server(("127.0.0.1", port), backlog=512) as listener:
        enter_network(pid)  # threads that are started later are in it too
        while True:
            near, _ = listener.accept()
            threading.Thread(target=join, args=(near, host, inner_port), daemon=True).start()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
