"""The pytest plugin (entry point ``pytest11``): the fixtures ``slurm`` and ``submit``. docs/testing.md has recipes.

All of pytest's runs load this module, so it imports nothing but pytest until a test asks for a fixture.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from shim.testing.cluster import Cluster
    from shim.testing.job import Job


def pytest_configure(config: pytest.Config) -> None:
    """Makes the marker known."""
    config.addinivalue_line(
        "markers",
        "slurm(nodes=, cpus=, memory=, gpus=, partitions=, slurm_conf=, …): the shape of the fixture slurm's cluster",
    )


@pytest.fixture
def slurm_shape() -> dict[str, Any]:
    """The shape of clusters where the marker does not say otherwise. To be replaced by a fixture of that name of yours."""
    return {}


@pytest.fixture
def slurm(
    request: pytest.FixtureRequest,
    slurm_shape: dict[str, Any],
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Cluster]:
    """A throw-away cluster; scripts run in the test's ``tmp_path``."""
    from shim.testing.cluster import Cluster

    shape = dict(slurm_shape)
    for marker in reversed(list(request.node.iter_markers("slurm"))):
        shape.update(marker.kwargs)
    with Cluster(tmp_path_factory.mktemp("slurm"), tmp_path, **shape) as cluster:
        yield cluster


@pytest.fixture
def submit(slurm: Cluster) -> Callable[..., Job]:
    """``slurm.submit``."""
    return slurm.submit
