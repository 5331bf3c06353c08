"""The columns of sacctmgr (22.05), the tables of its entities, and the words that choose what is listed.

A name in ``format=`` counts from so many letters on; of several that begin so the first one is meant. Every entity has every column, and
one that says nothing of an entity is empty there.
"""

from __future__ import annotations

from shim.core.accounting.associations import ROOT
from shim.core.errors import ShimError, plain
from shim.core.formats.integers import is_number
from shim.core.render.sacct_table import Column
from shim.core.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from shim.core.accounting.associations import Record

# Names in ``format=``, each with its fewest letters; the width, negative for left-justified; the header.
_COLUMNS = """
Account:3 Acct:4 | 10 | Account
Actor:4 | 10 | Actor
Action:4 | 20 | Action
AdminLevel:2 | 9 | Admin
Allocated:7 | 11 | % Allocated
Associations:2 | 10 | Assocs
Classification:3 | 9 | Class
ClusterNodes:8 | 20 | Cluster Nodes
Cluster:2 Clusters:2 | 10 | Cluster
ControlHost:8 | 15 | ControlHost
ControlPort:8 | 12 | ControlPort
Coordinators:2 | 20 | Coord Accounts
Count:3 | 6 | Count
CountAllowed:6 | 10 | # Allowed
CountUsed:6 | 10 | # Used
DefaultAccount:8 | 10 | Def Acct
DefaultQOS:8 | 9 | Def QOS
DefaultWCKey:8 | 10 | Def WCKey
Description:3 | 20 | Descr
Duration:2 | 13 | Duration
End:2 TimeEnd:6 | 19 | TimeEnd
EventRaw:6 | 8 | EventRaw
Event:2 | 7 | Event
Fairshare:2 Share:1 | 9 | Share
FedStateRaw:9 | 11 | FedStateRaw
FedState:4 | 12 | FedState
Federation:3 | 10 | Federation
Features:3 | 20 | Features
Flags:2 | 20 | Flags
GraceTime:3 | 10 | GraceTime
GrpCPUMins:7 | 11 | GrpCPUMins
GrpCPURunMins:7 | 13 | GrpCPURunMins
GrpCPUs:6 | 8 | GrpCPUs
GrpJobsAccrue:8 | 13 | GrpJobsAccrue
GrpJobs:4 | 7 | GrpJobs
GrpMem:4 | 7 | GrpMem
GrpNodes:4 | 8 | GrpNodes
GrpSubmitJobs:4 | 9 | GrpSubmit
GrpTRESMins:8 | 13 | GrpTRESMins
GrpTRESRunMins:8 | 13 | GrpTRESRunMin
GrpTRES:7 | 13 | GrpTRES
GrpWall:4 | 11 | GrpWall
ID:2 | 6 | ID
Info:2 | 20 | Info
LFT:1 | 6 | LFT
LimitFactor:6 | 11 | LimitFactor
MaxCPUMinsPerJob:7 | 11 | MaxCPUMins
MaxCPURunMins:7 | 15 | MaxCPURunMinsPU
MaxCPUsPerUser:11 | 9 | MaxCPUsPU
MaxCPUsPerJob:7 | 8 | MaxCPUs
MaxJobsAccruePA:15 MaxJobsAccruePerAccount:17 | 15 | MaxJobsAccruePA
MaxJobsAccruePU:15 MaxJobsAccruePerUser:17 | 15 | MaxJobsAccruePU
MaxJobsAccrue:8 | 13 | MaxJobsAccrue
MaxJobsPA:9 MaxJobsPerAccount:11 | 9 | MaxJobsPA
MaxJobsPU:9 MaxJobsPerUser:11 | 9 | MaxJobsPU
MaxJobs:4 | 7 | MaxJobs
MaxNodesPerUser:12 | 10 | MaxNodesPU
MaxNodesPerJob:4 | 8 | MaxNodes
MaxSubmitJobsPA:15 MaxSubmitJobsPerAccount:17 MaxSubmitPA:11 | 11 | MaxSubmitPA
MaxSubmitJobsPU:14 MaxSubmitJobsPerUser:14 MaxSubmitPU:10 | 11 | MaxSubmitPU
MaxSubmitJobs:4 | 9 | MaxSubmit
MaxTRESMinsPerJob:8 | 13 | MaxTRESMins
MaxTRESPA:9 MaxTRESPerAccount:11 | 13 | MaxTRESPA
MaxTRESPU:9 MaxTRESPerUser:11 | 13 | MaxTRESPU
MaxTRESPerNode:11 | 14 | MaxTRESPerNode
MaxTRESRunMinsPerAccount:8 MaxTRESRunMinsPA:8 MaxTRESRunMinsPerUser:8 MaxTRESRunMinsPU:8 | 15 | MaxTRESRunMinsP
MaxTRES:7 MaxTRESPerJob:11 | 13 | MaxTRES
MaxWallDurationPerJob:4 | 11 | MaxWall
MinCPUs:7 | 8 | MinCPUs
MinPrioThreshold:4 | 12 | MinPrioThres
MinTRESPerJob:7 | 13 | MinTRES
Name:2 | 10 | Name
NodeCount:5 | 9 | NodeCount
NodeInx:5 | 9 | NodeInx
NodeNames:5 | -15 | NodeName
Organization:1 | 20 | Org
ParentID:7 | 8 | ParentID
ParentName:7 | 10 | ParentName
Partition:4 | 10 | Partition
PluginIDSelect:2 | 14 | PluginIDSelect
PreemptExemptTime:8 | 19 | PreemptExemptTime
PreemptMode:8 | 11 | PreemptMode
Preempt:7 | 10 | Preempt
Priority:3 | 10 | Priority
Problem:1 | 40 | Problem
QosRAWLevel:4 | 10 | QOS_RAW
QOSLevel:3 | 20 | QOS
Reason:1 | 30 | Reason
RGT:2 | 6 | RGT
RPC:2 | 5 | RPC
ServerType:10 | 10 | ServerType
Server:3 | 10 | Server
StateRaw:6 | 8 | StateRaw
Start:4 TimeStart:8 | 19 | TimeStart
State:2 | 6 | State
TimeEligible:6 | 19 | TimeEligible
TimeSubmit:6 | 19 | TimeSubmit
TimeStamp:2 | 19 | Time
TRES:2 | 20 | TRES
Type:2 | 8 | Type
UnusedWall:2 | 10 | UnusedWall
UsageFactor:6 | 11 | UsageFactor
UsageThreshold:6 | 10 | UsageThres
User:1 | 10 | User
WCKeys:2 | 20 | WCKeys
Where:2 | 20 | Where
"""


def _read() -> tuple[list[tuple[str, int, str]], dict[str, int]]:
    """(name, fewest letters, header) in order, and the width of each header."""
    names: list[tuple[str, int, str]] = []
    widths: dict[str, int] = {}
    for line in _COLUMNS.strip().split("\n"):
        said, width, header = line.split(" | ")
        widths[header] = int(width)
        for one in said.split():
            name, _, least = one.partition(":")
            names.append((name.lower(), int(least), header))
    return names, widths


_NAMES, _WIDTHS = _read()
_TREE = -20  # the width of accounts that are indented
_LIMITS = "Share,Priority,GrpJobs,GrpTRES,GrpSubmit,GrpWall,GrpTRESMins,MaxJobs,MaxTRES,MaxTRESPerNode,MaxSubmit,MaxWall,MaxTRESMins,QOS,Def QOS,GrpTRESRunMin"
_OF_USER = "Cluster,Account,Partition,Share,Priority,MaxJobs,MaxNodes,MaxCPUs,MaxSubmit,MaxWall,MaxCPUMins,QOS,Def QOS"
_OF_ACCOUNT = "Cluster,ParentName,User,Share,Priority,GrpJobs,GrpNodes,GrpCPUs,GrpMem,GrpSubmit,GrpWall,GrpCPUMins,MaxJobs,MaxNodes,MaxCPUs,MaxSubmit,MaxWall,MaxCPUMins,QOS,Def QOS"
_OF_CLUSTER = "Share,GrpJobs,GrpTRES,GrpSubmit,MaxJobs,MaxTRES,MaxSubmit,MaxWall,QOS,Def QOS"
_OF_QOS = (
    "Name,Priority,GraceTime,Preempt,PreemptExemptTime,PreemptMode,Flags%40,UsageThres,UsageFactor,GrpTRES,GrpTRESMins,"
    "GrpTRESRunMin,GrpJobs,GrpSubmit,GrpWall,MaxTRES,MaxTRESPerNode,MaxTRESMins,MaxWall,MaxTRESPU,MaxJobsPU,MaxSubmitPU,"
    "MaxTRESPA,MaxJobsPA,MaxSubmitPA,MinTRES"
)


class Entity(Value):
    """What may be listed. ``columns``: headers, with ``%`` and a width where that differs; ``associated``: with withassoc these too.

    ``named``: the column that a bare word means. ``conditions``: words, each with its fewest letters, and the column that must be one of the
    values; behind ``+`` it is a column of its associations. ``flags``: words without a value.
    """

    name: str
    least: int
    columns: str
    limits: str = ""  # of the associations themselves: not shown with wolimits
    associated: str = ""
    named: str = ""
    conditions: str = ""
    flags: str = ""


ENTITIES = (
    Entity(
        name="accounts", least=2, columns="Account,Descr,Org", associated=_OF_ACCOUNT, named="Account",
        conditions="accounts:1=Account acct:4=Account names:1=Account descriptions:1=Descr organizations:1=Org "
        "clusters:1=+Cluster users:1=+User parents:3=+ParentName partitions:3=+Partition qoslevel:1=+QOS ids:1=+ID defaultqos:8=+Def~QOS",
        flags="withassoc:5 withcoordinators:5 withdeleted:5 withrawqos:5 woplimits:4",
    ),
    Entity(name="acct", least=4, columns="", named="accounts"),
    Entity(
        name="associations", least=2, columns="Cluster,Account,User,Partition", limits=_LIMITS, named="ID",
        conditions="accounts:2=Account acct:4=Account clusters:1=Cluster ids:1=ID partitions:3=Partition parents:3=ParentName "
        "users:1=User qoslevel:1=QOS defaultqos:8=Def~QOS",
        flags="tree:4 onlydefaults:4 withdeleted:5 withrawqos:5 withsubaccounts:5 wopinfo:4 woplimits:4 wolimits:3",
    ),
    Entity(
        name="clusters", least=2, columns="Cluster,ControlHost,ControlPort,RPC", limits=_OF_CLUSTER, named="Cluster",
        conditions="clusters:3=Cluster names:1=Cluster classification:3=Class federations:3=Federation flags:2=Flags pluginidselect:1=PluginIDSelect rpcversions:1=RPC",
        flags="withfed:5 withdeleted:5 wolimits:3",
    ),
    Entity(
        name="qos", least=1, columns=_OF_QOS, named="Name",
        conditions="names:1=Name qoslevel:1=Name ids:1=ID descriptions:1=Descr preemptmode:8=PreemptMode",
        flags="withdeleted:5",
    ),
    Entity(
        name="tres", least=4, columns="Type,Name%15,ID", named="Type",
        conditions="type:2=Type names:1=Name ids:1=ID", flags="withdeleted:5",
    ),
    Entity(
        name="users", least=1, columns="User,Def Acct,Admin", associated=_OF_USER, named="User",
        conditions="users:1=User names:1=User adminlevel:2=Admin defaultaccounts:8=Def~Acct defaultwckeys:8=Def~WCKey "
        "accounts:2=+Account acct:4=+Account clusters:1=+Cluster partitions:3=+Partition qoslevel:1=+QOS ids:1=+ID parents:3=+ParentName defaultqos:8=+Def~QOS",
        flags="withassoc:5 withcoordinators:5 withdeleted:5 withrawqos:5 woplimits:4",
    ),
    Entity(
        name="wckeys", least=1, columns="WCKey%10,Cluster,User", named="WCKey",
        conditions="names:1=WCKey wckeys:1=WCKey clusters:1=Cluster users:1=User", flags="withdeleted:5",
    ),
    # What there is none of here.
    Entity(name="federations", least=1, columns="Federation,Cluster,ID%2,Features,FedState", flags="tree:4"),
    Entity(name="problems", least=1, columns="Cluster,Account,User,Problem"),
    Entity(name="reservations", least=4, columns="Cluster,Name%15,TRES%30,TimeStart,TimeEnd,UnusedWall"),
    Entity(name="resource", least=4, columns="Name,Server,Type,Count,% Allocated,ServerType", flags="withclusters:5"),
)  # fmt: skip


def entity_of(word: str) -> Entity | None:
    """The entity that ``word`` names or abbreviates."""
    lower = word.lower()
    for entity in ENTITIES:
        if len(lower) >= entity.least and entity.name.startswith(lower):
            return entity_of(entity.named) if not entity.columns else entity
    return None


class Asked(Value):
    """What a listing is to show. ``conditions``: column -> values of which it must have one, those of associations apart."""

    format: tuple[str, ...] = ()
    conditions: dict[str, tuple[str, ...]] = {}
    associated: dict[str, tuple[str, ...]] = {}
    flags: tuple[str, ...] = ()


def asked(entity: Entity, words: Sequence[str], every: dict[str, Sequence[str]]) -> Asked:
    """What ``words`` ask of the entity. ``every``: of columns whose values must be there (QOS) all values. ShimError in Slurm's words."""
    formats: list[str] = []
    own: dict[str, tuple[str, ...]] = {}
    associated: dict[str, tuple[str, ...]] = {}
    flags: list[str] = []
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            flag = _among(entity.flags, key)
            if flag:
                flags.append(flag)
            elif key.lower() not in ("where", "set") and entity.named:
                if entity.named == "ID" and not key.isdigit():
                    raise ShimError(f"error: Invalid value for AssocId ({key})")
                own[entity.named] = (*own.get(entity.named, ()), *_values(key))
            continue
        if key and "format".startswith(key.lower()):
            formats += value.split(",")
            continue
        column = _among(entity.conditions, key)
        if not column:
            raise ShimError(plain(f" Unknown condition: {word}"), plain(" Use keyword 'set' to modify value"))
        into, column = (associated, column[1:]) if column.startswith("+") else (own, column)
        column = column.replace("~", " ")
        _look_up(word, _values(value), every.get(column))
        into[column] = (*into.get(column, ()), *_values(value))
    return Asked(format=tuple(formats), conditions=own, associated=associated, flags=tuple(flags))


def _look_up(word: str, values: Sequence[str], known: Sequence[str] | None) -> None:
    for value in values:
        if known is not None and value not in known:
            told = f"error: You gave a bad qos '{value}'. Valid QOS's are {','.join(known)}"
            raise ShimError(told, plain(f" Unknown condition: {word}"))


def _values(text: str) -> tuple[str, ...]:
    """The values of a condition; names are kept in small letters. Nothing is a name that nobody has."""
    text = text.strip("\"'").lower()
    return tuple(one for one in text.split(",") if one) or ("",)


def _among(table: str, word: str) -> str:
    """What stands behind the name in ``table`` that ``word`` abbreviates (the name itself where nothing does); "" for none."""
    lower = word.lower()
    for one in table.split():
        name, _, rest = one.partition(":")
        least, _, column = rest.partition("=")
        if len(lower) >= int(least) and name.startswith(lower):
            return column or name
    return ""


def columns(entity: Entity, wanted: Asked) -> list[Column]:
    """The columns of a listing. ShimError for a name in ``format=`` that no column has."""
    if wanted.format:
        words = [word for word in dict.fromkeys(wanted.format) if word or not wanted.format[1:]]
        return [_named(word, "tree" in wanted.flags) for word in words]
    texts = [entity.columns]
    if "withassoc" in wanted.flags:
        texts.append(entity.associated)
    if entity.limits and not {"wolimits", "woplimits"}.intersection(wanted.flags):
        texts.append(entity.limits)
    if "withcoordinators" in wanted.flags:
        texts.append("Coord Accounts")
    if "withfed" in wanted.flags:
        texts.append("Federation,ID,Features,FedState")
    return [_headed(word, "tree" in wanted.flags) for text in texts for word in text.split(",") if word]


def _headed(word: str, tree: bool) -> Column:
    header, _, width = word.partition("%") if not word.startswith("%") else (word, "", "")
    return Column(header, int(width) if width else _usual(header, tree), _shower(header))


def _usual(header: str, tree: bool) -> int:
    return _TREE if tree and header == "Account" else _WIDTHS[header]


def _named(word: str, tree: bool) -> Column:
    name, _, width = word.partition("%")
    lower = name.lower()
    for known, least, header in _NAMES:
        if len(lower) >= least and known.startswith(lower):
            return Column(header, _width(width) or _usual(header, tree), _shower(header))
    raise ShimError(plain(f"Unknown field '{name}'"))


def _width(text: str) -> int:
    digits = text[1:] if text.startswith("-") else text
    size = min(int(digits), 4096) if is_number(digits, 9) else 0
    return -size if text.startswith("-") else size


def _shower(header: str) -> Callable[[Record], str]:
    return lambda record: record.get(header, "")


def fitting(records: Sequence[Record], conditions: dict[str, tuple[str, ...]]) -> list[Record]:
    """The records whose columns have one of the values asked for; of a column that is a list, in the list."""
    return [
        record
        for record in records
        if all(_has_one(record.get(column, "").lower(), values) for column, values in conditions.items())
    ]


def _has_one(text: str, values: Sequence[str]) -> bool:
    return any(value in values for value in (text, *text.split(",")))


def with_associations(records: Sequence[Record], by: str, associations: Sequence[Record]) -> list[Record]:
    """Each record once for each of its associations, found by the column ``by``; once where it has none."""
    found: list[Record] = []
    for record in records:
        own = [one for one in associations if one[by] == record[by]]
        found += [{**one, **record} for one in own] or [record]
    return found


def as_tree(associations: Sequence[Record]) -> list[Record]:
    """The associations with accounts indented by their depth."""
    return [{**one, "Account": " " * _depth(one) + one["Account"]} for one in associations]


def _depth(one: Record) -> int:
    return (one["ParentID"] != "0") + bool(one["User"] and one["Account"] != ROOT)
