"""Kubernetes' quantities."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.control.backends.kubernetes.objects import quantities


@pytest.mark.parametrize(
    ("text", "millis"),
    [("2", 2000), ("250m", 250), ("1.5", 1500), ("0", 0), ("1500u", 2), ("2k", 2_000_000), ("1e1", 10_000), (3, 3000)],
)
def test_cpus_are_rounded_up_to_thousandths(text: object, millis: int) -> None:
    assert quantities.millis(text) == millis


@pytest.mark.parametrize(
    ("text", "mebibytes"),
    [("16Gi", 16384), ("1M", 1), ("1048577", 2), ("100Ki", 1), ("1.5Gi", 1536), ("128974848", 123), ("2Ti", 2 << 20)],
)
def test_memory_is_rounded_up_to_mebibytes(text: str, mebibytes: int) -> None:
    assert quantities.mebibytes(text) == mebibytes


@pytest.mark.parametrize("text", ["", "x", "1 Gi", "1GiB", "--1", "1KiKi"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no quantity"):
        quantities.parse(text)


@given(st.integers(0, 1 << 40))
def test_whole_numbers_are_themselves(number: int) -> None:
    assert quantities.parse(str(number)) == number
    assert quantities.mebibytes(f"{number}Mi") == number
