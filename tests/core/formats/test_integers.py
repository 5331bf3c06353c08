"""Numbers as C reads them."""

from __future__ import annotations

import pytest

from shim.core.formats.integers import int32, is_number, leading_digits, leading_int, strtol


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", (None, "")),
        ("x", (None, "x")),
        ("-", (None, "-")),
        (" +x", (None, " +x")),
        ("12", (12, "")),
        (" \t\n-3x", (-3, "x")),
        ("+04K", (4, "K")),
        ("1" * 30 + "z", (int("1" * 20), "z")),  # more digits than any limit
        ("²", (None, "²")),
    ],
)
def test_leading_int(text: str, found: tuple[int | None, str]) -> None:
    assert leading_int(text) == found
    assert strtol(text) == (found[0] or 0, found[1])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", (0, "")),
        ("x1", (0, "x1")),
        ("-1", (0, "-1")),
        (" 1", (0, " 1")),
        ("007x", (7, "x")),
        ("000", (0, "")),
        ("0" * 50 + "5", (5, "")),
        ("9" * 5000 + "j", (10**18 - 1, "j")),
    ],
)
def test_leading_digits(text: str, found: tuple[int, str]) -> None:
    assert leading_digits(text) == found


def test_a_number_is_digits_that_any_interpreter_takes() -> None:
    assert is_number("0")
    assert is_number("9" * 18)
    assert is_number("123", 3)
    for text in ("", "-1", "+1", " 1", "1 ", "1.", "²", "9" * 19):
        assert not is_number(text)
    assert not is_number("1234", 3)


@pytest.mark.parametrize(
    ("number", "kept"),
    [
        (0, 0),
        (2**31 - 1, 2**31 - 1),
        (2**31, -(2**31)),
        (2**32 - 1, -1),
        (2**32, 0),
        (-(2**31), -(2**31)),
        (-(2**31) - 1, 2**31 - 1),
    ],
)
def test_32_bits(number: int, kept: int) -> None:
    assert int32(number) == kept
