"""A fake real Slurm, and the end of the controllers that its jobs' rows need."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.control.backends.slurm.fake import Site


@pytest.fixture
def there(tmp_path: Path, state_dir: Path) -> Iterator[Site]:
    site = Site(tmp_path)
    yield site
    if list(state_dir.glob("*/controller.lock")):
        assert site.run("shim", "controller", "stop", "--now").returncode == 0
