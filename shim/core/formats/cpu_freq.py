"""``--cpu-freq``: the governors that it may name, and the value as scontrol shows it."""

from __future__ import annotations

GOVERNORS = ("Conservative", "OnDemand", "Performance", "PowerSave", "SchedUtil", "UserSpace")


def show_cpu_freq(text: str) -> str:
    """``CPU_min_freq=Low CPU_max_freq=High `` of ``Low-High``; a word that is no frequency is the governor."""
    frequencies, _, governor = text.partition(":")
    least, _, most = frequencies.rpartition("-")
    if most in GOVERNORS:
        most, governor = "", most
    shown = f"CPU_min_freq={least} " if least else ""
    shown += f"CPU_max_freq={most} " if most else ""
    return shown + (f"Governor={governor}" if governor else "")
