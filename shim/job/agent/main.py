"""One run of an agent on this machine: its lock, its place (namespaces), its parts, its end.

A leader that ends leaves with 0, and so does a node that the leader has stopped; one ended by TERM with 143.
"""

from __future__ import annotations

import os

import shim.job.agent.node.step  # noqa: F401 - a node loads it with its first task: here the fork server has it for all
from shim.core.jsonlite import loads
from shim.job import rawfile
from shim.job.agent.agent import Agent, log
from shim.job.agent.herald import Herald
from shim.job.agent.kept_line import KeptLine, drop
from shim.job.agent.leader.leading_agent import LeadingAgent
from shim.job.agent.lock import take_lock
from shim.job.agent.place import Place
from shim.job.run_folder import ENVIRONMENT, KEY, SPEC, read_key
from shim.job.spec import RunSpec

LOCK_PATIENCE = 0.3  # seconds: who looks whether an agent lives holds its lock for a moment


def run(
    run_dir: str, index: int, bell: int | None = None, line: int | KeptLine | None = None, place: Place | None = None
) -> int:
    """Be agent ``index`` of the run in ``run_dir``, to its end; the exit code. Another one holds the lock: 0, nothing done.

    ``bell``: of a herald, for a leader with news (None: nobody can be asked for a controller). ``line``: a leader's connection to the controller
    that asked for it, new or kept from the last run. ``place``: of a process that goes on after this run.
    """
    lock = take_lock(run_dir, index, LOCK_PATIENCE)
    if lock is None:
        drop(line)
        return 0
    try:
        given = loads(rawfile.read(os.path.join(run_dir, SPEC)))
        spec = RunSpec.from_dict(given)
        key = bytes.fromhex(given[KEY]) if KEY in given else read_key(run_dir)
        herald = None
        if index == 0 and spec.news and bell is not None:
            herald = Herald(os.dup(bell), spec.news)
        place = place or Place()
        try:
            place.take(spec, index)
        except OSError as error:
            # It worked when the backend tried it. The job runs, its nodes' names may not resolve.
            log(run_dir, index, f"no namespaces: {error}")
        if index == 0:
            leading = LeadingAgent(spec, index, run_dir, key, place.subreaper, herald, line, place.loop, lock)
            leading.environment = given.get(ENVIRONMENT)
            code = leading.run()
            place.line = leading.kept
            return code
        return Agent(spec, index, run_dir, key, place.subreaper, place.loop).run()
    finally:
        os.close(lock)
