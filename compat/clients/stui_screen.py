"""stui in a terminal of 150 x 40: its queue shows the jobs given as arguments within a minute; then ``q`` ends it."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import sys
import termios
import time

LIMIT = 60.0


def main() -> int:
    """Exit 1 with what was on the screen if a name is missing."""
    wanted = [name.encode() for name in sys.argv[1:]]
    program = os.path.join(os.path.dirname(sys.executable), "stui")
    child, terminal = pty.fork()
    if child == 0:
        os.environ["TERM"] = "xterm"
        os.execv(program, [program])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 150, 0, 0))
    screen = b""
    end = time.monotonic() + LIMIT
    while time.monotonic() < end and not all(name in screen for name in wanted):
        ready, _, _ = select.select([terminal], [], [], 0.5)
        if ready:
            try:
                screen += os.read(terminal, 65536)
            except OSError:
                break  # it ended by itself
    found = all(name in screen for name in wanted)
    os.kill(child, 15)
    os.waitpid(child, 0)
    if not found:
        sys.stdout.buffer.write(screen)
        return 1
    print("stui: shows", *sys.argv[1:])
    return 0


if __name__ == "__main__":
    sys.exit(main())
