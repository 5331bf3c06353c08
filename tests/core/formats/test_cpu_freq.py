"""``--cpu-freq`` as scontrol shows it."""

from __future__ import annotations

import pytest

from shim.core.formats.cpu_freq import show_cpu_freq


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Low", "CPU_max_freq=Low "),
        ("Low-High", "CPU_min_freq=Low CPU_max_freq=High "),
        ("Performance", "Governor=Performance"),
        ("Low-Performance", "CPU_min_freq=Low Governor=Performance"),
        ("Low-High:OnDemand", "CPU_min_freq=Low CPU_max_freq=High Governor=OnDemand"),
    ],
)
def test_frequencies_and_governors(text: str, shown: str) -> None:
    assert show_cpu_freq(text) == shown
