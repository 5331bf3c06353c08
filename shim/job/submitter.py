"""What a submission carries of the process that makes it: resource limits and the umask."""

from __future__ import annotations

import os

from shim.core.limits import RLIMITS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Optional, Sequence


def passed_on(propagate: Optional[str]) -> Dict[str, List[int]]:
    """The present values of the limits that ``--propagate`` names (None: all), by the names that getrlimit has for them.

    Raises ShimError for a name that Slurm does not know.
    """
    names: Sequence[str] = RLIMITS
    if propagate is not None:
        # Dear to import, and hardly anybody gives the option.
        from shim.core.options.keyword_values import limits_to_pass

        names = limits_to_pass(propagate)
    import resource

    limits = {}
    for name in names:
        number = getattr(resource, f"RLIMIT_{name}", None)
        if number is not None:
            limits[f"RLIMIT_{name}"] = list(resource.getrlimit(number))
    return limits


def propagated(limits: Dict[str, List[int]]) -> List[str]:
    """What ``-vv`` says of them, and of the priority and the umask that go with them."""
    texts = [f"{name}={soft & 0xFFFFFFFFFFFFFFFF}" for name, (soft, _hard) in limits.items()]
    texts += [f"SLURM_PRIO_PROCESS={os.getpriority(os.PRIO_PROCESS, 0)}", f"UMASK={umask():04o}"]
    return [f"debug:  propagating {text}" for text in texts]


def umask() -> int:
    """The present umask, which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
