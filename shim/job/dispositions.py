"""Signals as a new process is to find them: every one at its default, none blocked. Both are inherited, by fork and by execve.

Said wherever a process is made that lasts: whoever made the maker may ignore SIGCHLD (then nobody can wait for a child) or SIGHUP (nohup).
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
else:
    import _signal

IGNORED = {_signal.SIGPIPE, getattr(_signal, "SIGXFSZ", _signal.SIGPIPE)}  # by Python, from its start


def reset() -> None:
    """Nothing is blocked or ignored in this process any more, but what Python itself ignores."""
    _signal.pthread_sigmask(_signal.SIG_SETMASK, ())
    for number in _signal.valid_signals():
        if _signal.getsignal(number) == _signal.SIG_IGN and number not in IGNORED:
            _signal.signal(number, _signal.SIG_DFL)
