"""A fake real Slurm, and the end of the controllers that its jobs' rows need."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.control.backends.slurm.fake import Site, end_all


@pytest.fixture
def there(tmp_path: Path, state_dir: Path) -> Iterator[Site]:
    yield Site(tmp_path)
    end_all(state_dir)
