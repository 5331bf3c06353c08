"""Memory as ``--mem`` takes it and squeue's ``%m`` shows it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.core.formats.sizes import parse_memory, show_memory


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("100", "100M"),
        ("100K", "1M"),
        ("1025K", "2M"),
        ("1024M", "1G"),
        ("1500M", "1500M"),
        ("1g", "1G"),
        ("1GB", "1G"),
        ("1mb", "1M"),
        ("1T", "1T"),
        ("+5", "5M"),
        ("1024K", "1M"),
        ("512M", "512M"),
        ("1048576T", "1024P"),  # there is no larger unit
        ("1536G", "1.50T"),
        ("0", "0"),
        ("10240", "10G"),
        ("16000", "16000M"),
        ("16001", "16001M"),
        ("12345", "12345M"),
        (" 1G", "1G"),
        ("1024000", "1000G"),
        ("64000", "62.50G"),
        ("33000", "33000M"),
    ],
)
def test_as_squeue_shows_it(text: str, shown: str) -> None:
    assert show_memory(parse_memory(text)) == shown


@pytest.mark.parametrize(
    "text",
    ["", " ", "1.5G", "1Gi", "1GiB", "-1", "1X", "G", "1 G", "abc", "1BB", "1KK", "1BB", "1BM", "++1", "²", "9" * 30],
)
def test_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_memory(text)


@given(st.integers(0, (1 << 30) - 1))  # a petabyte is shown as 1P, which no option reads
def test_whole_amounts_survive(mib: int) -> None:
    text = show_memory(mib)
    if "." not in text:
        assert parse_memory(text) == mib
