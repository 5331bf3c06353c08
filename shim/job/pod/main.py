"""The first process of a pod's container, called by ``boot`` in the interpreter it has found."""

from __future__ import annotations

import os
import sys

from shim.job import rawfile
from shim.job.agent.lock import take_lock
from shim.job.libc import become_subreaper
from shim.job.pod.agent import PodAgent
from shim.job.pod.ending import tell_end
from shim.job.pod.folder import StartedBefore, prepare
from shim.job.pod.places import INDEX, places

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from shim.job.pod.leading import PodLeader
    from shim.job.pod.places import Places

_FAILED = 70  # as sysexits' EX_SOFTWARE: an error of ours


def agent() -> NoReturn:
    """Is this pod's agent to its end; ends the process with the container's exit code."""
    here = places()
    code = _FAILED
    try:
        code = _run(here)
    except BaseException:
        import traceback  # dear, and seldom needed

        text = traceback.format_exc()
        sys.stderr.write(text)
        tell_end(here, text[-2000:])
    finally:
        os._exit(code)


def _run(here: Places) -> int:
    try:
        index = int(os.environ[INDEX])
        spec, run_dir = prepare(here)
        key = bytes.fromhex(rawfile.read(f"{run_dir}/key").decode("ascii"))
    except StartedBefore:
        return _refuse(here, "this pod has begun its part of the run before: it does not begin again")
    except (OSError, ValueError, KeyError, TypeError) as error:
        return _refuse(here, f"the pod cannot be an agent: {type(error).__name__}: {error}")
    lock = take_lock(run_dir, index)
    if lock is None:
        return _refuse(here, "another agent holds this pod's run folder")
    # The first process of a pid namespace gets the orphans anyway.
    subreaper = os.getpid() == 1 or become_subreaper()
    one = _part(index)(spec, index, run_dir, key, subreaper, here)
    if spec.staged:
        from shim.job.pod.staging import ARCHIVE, SNAPSHOT, unpacked

        archive = f"{here.ticket}/{ARCHIVE}"
        if os.path.exists(archive):
            one.unstaged = unpacked(archive, spec.job.request.work_dir, f"{run_dir}/{SNAPSHOT}")
    code = one.run()
    if index and one.why:
        tell_end(here, one.why)
    return code


def _part(index: int) -> type[PodAgent | PodLeader]:
    if index:
        return PodAgent
    from shim.job.pod.leading import PodLeader

    return PodLeader


def _refuse(here: Places, text: str) -> int:
    sys.stderr.write(f"slurm-shim: {text}\n")
    tell_end(here, text)
    return 1
