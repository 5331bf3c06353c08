"""Immutable value classes with slots, on one small base class.

``dataclasses`` costs a short command more to import than all of its own work, so the values of this project
are made here. A class body of annotations, some with defaults, becomes a slotted class with keyword
construction, equality, hash, ``repr`` and ``replace``:

    class Resources(Value):
        cpus: int
        memory: int = 0      # MiB

Values are immutable by convention enforced with ``__setattr__``; defaults must themselves be immutable.
``to_dict``/``from_dict`` turn a value into plain JSON data and back; fields that hold values are named in ``_nested``.
"""

from __future__ import annotations

from _operator import attrgetter  # built in: operator itself is a module to be loaded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar, dataclass_transform

    Self = TypeVar("Self", bound="Value")
else:

    def dataclass_transform(**_options):
        return lambda cls: cls


NEEDS: Any = ("no default",)
_PLAIN = frozenset((str, int, float, bool, type(None)))


class _ValueType(type):
    """Collects annotated names into ``__slots__`` and their defaults into ``_defaults``."""

    def __new__(mcs, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> type:
        fields: dict[str, Any] = {}
        for base in bases:
            fields.update(getattr(base, "_defaults", {}))
        own = [field for field in body.get("__annotations__", {}) if not field.startswith("_")]
        for field in own:
            fields[field] = body.pop(field, NEEDS)
        body["__slots__"] = tuple(own)
        body["_defaults"] = fields
        made = super().__new__(mcs, name, bases, body)
        # Slot descriptors set what __setattr__ forbids, and faster than object.__setattr__ finds them.
        nested = getattr(made, "_nested", {})
        slots = [(field, getattr(made, field).__set__, default, nested.get(field)) for field, default in fields.items()]
        made._slots = tuple(slots)  # type: ignore[attr-defined]
        # All fields at once, in C; with one name more the answer is a tuple also for a class of one field.
        made._read = attrgetter(*fields, "_slots")  # type: ignore[attr-defined]
        return made


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Value(metaclass=_ValueType):
    """Base of all values: keyword construction, equality by type and fields, no assignment."""

    if TYPE_CHECKING:
        _defaults: dict[str, Any]
        # name, setter, default, class of the values it holds (or None)
        _slots: tuple[tuple[str, Callable[[Any, Any], None], Any, Any], ...]
        _read: Callable[[Any], tuple[Any, ...]]
    # Fields that hold values (or lists of them): field -> class. Read by from_dict.
    _nested: dict[str, Any] = {}

    def __init__(self, **fields: Any) -> None:
        for name, put, default, _ in self._slots:
            value = fields.pop(name, default) if fields else default
            if value is NEEDS:
                raise TypeError(f"{type(self).__name__}: missing field {name!r}")
            put(self, value)
        if fields:
            raise TypeError(f"{type(self).__name__}: unknown fields {sorted(fields)}")

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable: {name}")

    def __eq__(self, other: object) -> bool:
        return self is other or (type(other) is type(self) and self._key() == other._key())

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{name}={getattr(self, name)!r}"
            for name, default in self._defaults.items()
            if getattr(self, name) != default
        )
        return f"{type(self).__name__}({shown})"

    def _key(self) -> tuple[Any, ...]:
        return type(self)._read(self)[:-1]

    def replace(self: Self, **changes: Any) -> Self:
        """A copy with ``changes``; unknown names raise TypeError."""
        copy = object.__new__(type(self))
        for (name, put, _, _), value in zip(self._slots, self._key()):
            put(copy, changes.pop(name) if name in changes else value)
        if changes:
            raise TypeError(f"{type(self).__name__}: unknown fields {sorted(changes)}")
        return copy

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data: only fields that differ from their default; tuples become lists."""
        fields: dict[str, Any] = {}
        for (name, _, default, _), value in zip(self._slots, self._key()):
            if value is not default and (default is NEEDS or value != default):
                fields[name] = value if value.__class__ in _PLAIN else _plain(value)
        return fields

    @classmethod
    def from_dict(cls: type[Self], data: dict[str, Any]) -> Self:
        """The inverse of ``to_dict``. Unknown keys are left out: they come from a newer writer."""
        made = object.__new__(cls)
        for name, put, default, nested in cls._slots:
            if name not in data:
                if default is NEEDS:
                    raise TypeError(f"{cls.__name__}: missing field {name!r}")
                put(made, default)
                continue
            value = data[name]
            if nested is not None and value is not None:
                value = (
                    tuple([nested.from_dict(item) for item in value])
                    if isinstance(value, list)
                    else nested.from_dict(value)
                )
            elif value.__class__ is list:
                value = _frozen(value)
            put(made, value)
        return made


def _plain(value: Any) -> Any:
    if isinstance(value, Value):
        return value.to_dict()
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


def _frozen(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_frozen(item) for item in value)
    return value
