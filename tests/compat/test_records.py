"""The suite: every case on the local backend does what real Slurm did when it was recorded."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from compat.case import load
from compat.run import Result, judge
from compat.targets import Local

CASES = {case.name: case for case in load()}


@pytest.fixture(scope="module")
def results(request: pytest.FixtureRequest) -> dict[str, Future[Result]]:
    """The results of the cases that are asked for, on their way: several run at once."""
    wanted = [item.callspec.params["name"] for item in request.session.items if "results" in item.fixturenames]  # type: ignore[attr-defined]
    target = Local()
    pool = ThreadPoolExecutor(target.workers)
    request.addfinalizer(lambda: pool.shutdown(cancel_futures=True))
    return {name: pool.submit(judge, CASES[name], target) for name in wanted}


@pytest.mark.parametrize("name", CASES)
def test_as_real_slurm(name: str, results: dict[str, Future[Result]]) -> None:
    result = results[name].result()
    if result.target in result.case.differs:
        assert result.verdict in ("known", "same")
    else:
        assert result.verdict == "same", f"{result.verdict}\n{result.difference}"
