"""The table of sshare (22.05) where priority/basic orders the jobs: everybody has one share, and no usage counts against anybody."""

from __future__ import annotations

from shim.core.accounting.associations import ROOT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from shim.core.accounting.associations import Record
    from shim.core.render.sacct_table import Field

DEFAULT = "Account,User,RawShares,NormShares,RawUsage,EffectvUsage,FairShare"
LONG = "Account,User,RawShares,NormShares,RawUsage,NormUsage,EffectvUsage,FairShare,LevelFS,GrpTRESMins,TRESRunMins"
_NOTHING = "0.000000"
# Name -> width, in the order of --helpformat, in which abbreviations are looked up.
_WIDTHS = {
    "Account": -20, "Cluster": 10, "EffectvUsage": 13, "FairShare": 10, "GrpTRESMins": 30, "GrpTRESRaw": 30, "ID": 6, "LevelFS": 10,
    "NormShares": 11, "NormUsage": 11, "Partition": 12, "RawShares": 10, "RawUsage": 11, "TRESRunMins": 30, "User": 10,
}  # fmt: skip


def _field(name: str, width: int) -> Field:
    return width, lambda row: row.get(name, "")


FIELDS: dict[str, Field] = {name: _field(name, width) for name, width in _WIDTHS.items()}


def rows(
    associations: Sequence[Record],
    tres: Sequence[str],
    accounts: Collection[str],
    users: Collection[str] | None,
    *,
    alone: bool,
) -> list[Record]:
    """The associations as sshare shows them. ``accounts``: empty for all; ``users``: None for all; ``alone``: users without their accounts."""
    none = ",".join(f"{name}=0" for name in tres)
    found = []
    for one in associations:
        account, user = one["Account"], one["User"]
        if (accounts and account not in accounts) or (alone and not user):
            continue
        if user and users is not None and user not in users:
            continue
        depth = 0 if alone else (account != ROOT and (not accounts or ROOT in accounts)) + bool(user)
        found.append(
            {
                **one,
                "Account": " " * depth + account,
                "RawShares": "" if account == ROOT and not user else "1",
                "RawUsage": "0",
                "EffectvUsage": _NOTHING,
                "FairShare": _NOTHING if user else "",
                "LevelFS": _NOTHING,
                "TRESRunMins": none,
                "GrpTRESRaw": none,
            }
        )
    return found
