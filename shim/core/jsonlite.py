"""JSON without the ``json`` package, whose import costs a short command more than its own work.

The scanner and the encoder are the C parts of the standard library (module ``_json``), set up as ``json`` sets them up.
Where an interpreter lacks them the package itself is used: slower, the same results.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

_SPACE = " \t\n\r"


def _refuse_constant(word: str) -> float:
    raise ValueError(f"{word} is not JSON")


def _refuse_value(value: object) -> object:
    raise TypeError(f"not JSON data: {type(value).__name__}")


class _ScannerSettings:
    """What the C scanner reads from the decoder that owns it."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = staticmethod(_refuse_constant)
    memo: dict[str, str] = {}


def _c_parts() -> tuple[Callable[[str, int], tuple[Any, int]], Callable[[Any], str]]:
    import _json

    settings: Any = _ScannerSettings()
    scan = _json.make_scanner(settings)

    def encode(value: Any) -> str:
        # A fresh set of markers: it finds a value that holds itself.
        encoder = _json.make_encoder(
            {}, _refuse_value, _json.encode_basestring_ascii, None, ":", ",", False, False, False
        )
        return "".join(encoder(value, 0))

    encode({"probe": [1, None]})
    return scan, encode


def _package_parts() -> tuple[Callable[[str, int], tuple[Any, int]], Callable[[Any], str]]:
    import json

    decoder = json.JSONDecoder(parse_constant=_refuse_constant)

    def encode(value: Any) -> str:
        return json.dumps(value, separators=(",", ":"), allow_nan=False)

    return decoder.raw_decode, encode


try:
    _scan, _encode = _c_parts()
except (ImportError, AttributeError, TypeError):
    _scan, _encode = _package_parts()


def dumps(value: Any) -> str:
    """``value`` as compact ASCII JSON on one line; any text survives, unpaired surrogates of file names included.

    Raises ValueError for numbers that JSON has not (nan, inf) and for values that hold themselves, TypeError for other types.
    """
    return _encode(value)


def loads(text: str | bytes) -> Any:
    """The data that ``text`` (bytes: UTF-8) stands for. Raises ValueError when it is not exactly one JSON value."""
    if not isinstance(text, str):
        text = str(text, "utf-8")
    text = text.strip(_SPACE)
    try:
        value, end = _scan(text, 0)
    except (StopIteration, SystemError):
        # SystemError: in Python 3.10 and 3.11 the C scanner looks in vain for the exception of json.decoder when that is
        # not imported; other versions import it then.
        raise ValueError("not JSON data") from None
    except RecursionError:
        raise ValueError("JSON data nested too deeply") from None
    if end != len(text):
        raise ValueError(f"text after the JSON data at character {end}")
    return value
