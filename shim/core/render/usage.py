"""What a step has used, in the columns of sacct and of sstat: ``MaxRSS``, ``AveCPU``, ``TRESUsageInTot`` and their like."""

from __future__ import annotations

from shim.core.formats.times import show_clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from shim.core.model.usage import Spread, Usage

    Show = Callable[[Usage, "Sizes"], str]
    Pick = Callable[[Spread], float]

UNITS = "KMGTP"
_KIB, _MIB = 1024, 1024 * 1024


class Sizes:
    """How sizes are shown. ``units``: all in these (one of KMGTP); ``raw``: in bytes, without a unit; ``in_mib``: what was read and
    written by the MiB, as sacct has it, where sstat counts bytes.
    """

    __slots__ = ("in_mib", "raw", "units")

    def __init__(self, units: str = "", raw: bool = False, in_mib: bool = False) -> None:
        self.units = units
        self.raw = raw
        self.in_mib = in_mib

    def show(self, amount: float) -> str:
        """So many bytes: in the largest unit that half of it divides, ``1.50M``, ``203388K``, ``0``."""
        if int(amount) == 0:
            return "0"
        if self.raw:
            return str(int(amount))
        if self.units:
            return _with(amount / 1024.0 ** (UNITS.index(self.units) + 1), self.units)
        return show_exact(amount)

    def disk(self, amount: float) -> str:
        """Bytes that were read or written."""
        if not self.in_mib or self.raw or self.units:
            return self.show(amount)
        mib = amount / _MIB
        return "0" if not amount else f"{mib:.2f}M" if mib < 1 else show_exact(mib, "M")


def show_exact(amount: float, unit: str = "") -> str:
    """An amount of ``unit`` in the largest unit that half of it divides."""
    place = UNITS.index(unit) + 1 if unit else 0
    while amount >= 1024 and int(amount) % 512 == 0 and place < len(UNITS):
        amount /= 1024
        place += 1
    return _with(amount, UNITS[place - 1] if place else "")


def _with(amount: float, unit: str) -> str:
    return f"{int(amount)}{unit}" if amount == int(amount) else f"{amount:.2f}{unit}"


class _Measure:
    """A measure in Slurm's words: its name among the TRES, and how an amount of it is shown."""

    __slots__ = ("name", "show", "tres")

    def __init__(self, tres: str, name: str, show: Callable[[float, Sizes], str]) -> None:
        self.tres = tres
        self.name = name
        self.show = show

    def of(self, usage: Usage) -> Spread | None:
        found: Spread | None = getattr(usage, self.name)
        return found


def _bytes(amount: float, _sizes: Sizes) -> str:
    return str(int(amount))


_CPU = _Measure("cpu", "cpu", lambda seconds, _sizes: show_clock(int(seconds)))
_READ = _Measure("fs/disk", "read", _bytes)
_WRITTEN = _Measure("fs/disk", "written", _bytes)
_MEMORY = _Measure("mem", "memory", lambda kib, sizes: sizes.show(kib * _KIB))
_PAGES = _Measure("pages", "pages", lambda count, _sizes: show_exact(int(count)) if count else "0")
_VIRTUAL = _Measure("vmem", "virtual", lambda kib, sizes: sizes.show(kib * _KIB))
# In the order of their names. Energy is not measured: 0, as Slurm without a sensor has it.
_IN = (_CPU, None, _READ, _MEMORY, _PAGES, _VIRTUAL)
_OUT = (None, _WRITTEN)


def _most(spread: Spread) -> float:
    return spread.most


def _least(spread: Spread) -> float:
    return spread.least


def _total(spread: Spread) -> float:
    return spread.total


def _amounts(measures: tuple[_Measure | None, ...], pick: Pick, of_each: bool = False) -> Show:
    """``cpu=00:00:01,energy=0,mem=12K``. ``of_each``: divided by the tasks."""

    def show(usage: Usage, sizes: Sizes) -> str:
        words = []
        for measure in measures:
            spread = measure.of(usage) if measure is not None else None
            if measure is None:
                words.append("energy=0")
            elif spread is not None:
                words.append(f"{measure.tres}={measure.show(_share(pick(spread), usage, of_each), sizes)}")
        return ",".join(words)

    return show


def _places(measures: tuple[_Measure | None, ...], where: Callable[[Spread], object], energy: bool) -> Show:
    """``cpu=node2,energy=node1``: nodes, or tasks (of which energy has none)."""

    def show(usage: Usage, _sizes: Sizes) -> str:
        words = []
        for measure in measures:
            spread = measure.of(usage) if measure is not None else usage.cpu
            if spread is not None and (measure is not None or energy):
                words.append(f"{measure.tres if measure is not None else 'energy'}={where(spread)}")
        return ",".join(words)

    return show


def _share(amount: float, usage: Usage, of_each: bool) -> float:
    return amount // max(1, usage.tasks) if of_each else amount


def _one(measure: _Measure, pick: Pick, of_each: bool = False, disk: bool = False) -> Show:
    def show(usage: Usage, sizes: Sizes) -> str:
        spread = measure.of(usage)
        if spread is None:
            return ""
        amount = _share(pick(spread), usage, of_each)
        return sizes.disk(amount) if disk else measure.show(amount, sizes)

    return show


def _where(measure: _Measure, where: Callable[[Spread], object]) -> Show:
    def show(usage: Usage, _sizes: Sizes) -> str:
        spread = measure.of(usage)
        return "" if spread is None else str(where(spread))

    return show


def _fields_of(name: str, measure: _Measure, disk: bool = False) -> dict[str, Show]:
    return {
        f"Ave{name}": _one(measure, _total, of_each=True, disk=disk),
        f"Max{name}": _one(measure, _most, disk=disk),
        f"Max{name}Node": _where(measure, lambda spread: spread.most_node),
        f"Max{name}Task": _where(measure, lambda spread: spread.most_task),
    }


def _tres_fields(name: str, measures: tuple[_Measure | None, ...]) -> dict[str, Show]:
    return {
        f"{name}Ave": _amounts(measures, _total, of_each=True),
        f"{name}Max": _amounts(measures, _most),
        f"{name}MaxNode": _places(measures, lambda spread: spread.most_node, energy=True),
        f"{name}MaxTask": _places(measures, lambda spread: spread.most_task, energy=False),
        f"{name}Min": _amounts(measures, _least),
        f"{name}MinNode": _places(measures, lambda spread: spread.least_node, energy=True),
        f"{name}MinTask": _places(measures, lambda spread: spread.least_task, energy=False),
        f"{name}Tot": _amounts(measures, _total),
    }


# What sacct and sstat both show of a step's usage; empty where nothing was seen of it.
FIELDS: dict[str, Show] = {
    "AveCPU": _one(_CPU, _total, of_each=True),
    "MinCPU": _one(_CPU, _least),
    "MinCPUNode": _where(_CPU, lambda spread: spread.least_node),
    "MinCPUTask": _where(_CPU, lambda spread: spread.least_task),
    **_fields_of("RSS", _MEMORY),
    **_fields_of("VMSize", _VIRTUAL),
    **_fields_of("Pages", _PAGES),
    **_fields_of("DiskRead", _READ, disk=True),
    **_fields_of("DiskWrite", _WRITTEN, disk=True),
    **_tres_fields("TRESUsageIn", _IN),
    **_tres_fields("TRESUsageOut", _OUT),
}
