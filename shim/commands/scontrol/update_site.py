"""``scontrol update`` of nodes and partitions: Slurm's words and refusals; the controller decides."""

from __future__ import annotations

from shim.commands import output
from shim.commands.scontrol.session import pairs
from shim.core.errors import ShimError, Unsupported, plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from shim.commands.scontrol.session import Session

_NO_ERROR = plain("slurm_update error: No error")
_NEEDS_REASON = ("DOWN", "DRAIN", "FAIL")
# Node states that may be asked for, in Slurm's order, with the fewest letters; and those that no node here can have.
_STATES = (("DRAIN", 3), ("FAIL", 3), ("FUTURE", 3), ("RESUME", 3), ("UNDRAIN", 3), ("DOWN", 3), ("IDLE", 3))
_OTHER_STATES = ("NORESP", "CANCEL_REBOOT", "POWER_DOWN", "POWER_UP", "POWER_DOWN_ASAP", "POWER_DOWN_FORCE")
_NODE_WORDS = {
    "nodename": "NodeName",
    "activefeatures": "Features",
    "availablefeatures": "Features",
    "features": "Features",
    "comment": "Comment",
    "extra": "Extra",
    "reason": "Reason",
    "state": "State",
    "weight": "Weight",
}
_NODE_UNKNOWN_HERE = ("cpubind", "gres", "nodeaddr", "nodehostname")  # of Slurm's words


def node(session: Session, words: list[str]) -> int:
    """``update nodename=n1 state=drain reason=…``; the exit code."""
    fields: dict[str, Any] = {}
    for key, value, word in pairs(words):
        if value is None:
            raise ShimError(f"error: Invalid input: {word}  Request aborted", _NO_ERROR)
        name = _beginning(key, _NODE_WORDS)
        if name is None:
            if _beginning(key, {one: one for one in _NODE_UNKNOWN_HERE}):
                raise Unsupported(f"error: update of {key} of a node is not supported here")
            raise ShimError(plain(f"Update of this parameter is not supported: {word}"), plain("Request aborted"))
        if name == "State":
            value = _state(value, word)
        fields[name] = _weight(value) if name == "Weight" else value
    if fields.get("State") in _NEEDS_REASON and not fields.get("Reason"):
        raise ShimError(plain("You must specify a reason when DOWNING or DRAINING a node. Request denied"))
    if fields.get("State") in ("FAIL", "FUTURE"):
        raise Unsupported(
            f"error: node state {fields['State']} is not supported here: DRAIN or DOWN take a node out of service"
        )
    asked = fields.pop("NodeName")
    if not fields:
        raise ShimError(plain("No changes specified"))
    return _ask(session, "change_nodes", asked, fields)


def _state(value: str, word: str) -> str:
    upper = value.upper()
    for name, fewest in _STATES:
        if len(upper) >= fewest and name.startswith(upper):
            return name
    if any(len(upper) > 2 and name.startswith(upper) for name in _OTHER_STATES):
        raise Unsupported(f"error: node state {upper} is not supported here")
    if any(len(upper) > 3 and name.startswith(upper) for name in ("ALLOCATED", "MIXED", "ERROR", "UNKNOWN")):
        raise ShimError(plain("slurm_update error: Invalid node state specified"))
    raise ShimError(
        plain(f"Invalid input: {word}"),
        plain("Request aborted"),
        plain("Valid states are: NoResp DRAIN FAIL FUTURE RESUME POWER_DOWN POWER_UP UNDRAIN"),
        plain("Not all states are valid given a node's prior state"),
    )


def _weight(value: str) -> int:
    if not (value.isascii() and value.isdigit() and len(value) < 10):
        raise ShimError(f"error: Weight value ({value}) is not a valid number", plain("No changes specified"))
    return int(value)


def _beginning(key: str, known: dict[str, str]) -> str | None:
    """The value of the known word that ``key`` equals, or begins with at least three letters."""
    lower = key.lower()
    if lower in known:
        return known[lower]
    found = [name for word, name in known.items() if word.startswith(lower)] if len(lower) > 2 else []
    return found[0] if found else None


def _ask(session: Session, operation: str, name: str, fields: dict[str, Any]) -> int:
    from shim.control import client

    own = {} if session.cluster is None else {"cluster": session.cluster}
    client.call(operation, {"name": name, "fields": fields, **own})
    return 0


class _Part:
    """Reads a single word of a partition's update. Raises ShimError with Slurm's text for an invalid value."""

    def __init__(self, name: str, value: str, word: str) -> None:
        self.name = name
        self.value = value
        self.word = word

    def time(self) -> int | None:
        from shim.core.formats.times import parse_minutes

        try:
            minutes = parse_minutes(self.value)
        except ValueError:
            raise ShimError(f"error: Invalid input {self.word}", _NO_ERROR) from None
        return None if minutes < 0 else minutes

    def count(self) -> int | None:
        if self.value.upper() in ("UNLIMITED", "INFINITE"):
            return None
        if not (self.value.isascii() and self.value.isdigit() and len(self.value) < 10):
            raise ShimError(f'error: Invalid numeric value "{self.value}" for {self.name}.')
        return int(self.value)

    def nodes(self) -> int | None:
        """The minimum of ``2`` or ``2-4``, as in -N. None for an invalid value, which is reported."""
        from shim.core.errors import UsageError
        from shim.core.options.values import node_range

        try:
            return node_range(self.value)[0]
        except UsageError as error:
            output.say("scontrol", *error.lines)
            return None

    def hosts(self) -> str:
        return self.value if self.value and self.value.upper() != "ALL" else "ALL"

    def number(self) -> int:
        return self.count() or 0

    def flag(self) -> bool:
        return self._one_of(("NO", "YES"), f"Acceptable {self.name} values are YES and NO") == "YES"

    def state(self) -> str:
        return self._one_of(
            ("INACTIVE", "DOWN", "UP", "DRAIN"), "Acceptable State values are UP, DOWN, DRAIN and INACTIVE"
        )

    def sharing(self) -> str:
        word, colon, count = self.value.partition(":")
        found = self._begun(word, ("NO", "EXCLUSIVE", "YES", "FORCE"))
        if found is None or (colon and (found not in ("YES", "FORCE") or not count.isdigit())):
            raise self._wrong("Acceptable OverSubscribe values are NO, EXCLUSIVE, YES:#, and FORCE:#")
        return found + (colon + count if colon else ":4" if found in ("YES", "FORCE") else "")

    def text(self) -> str:
        return self.value

    def allowed(self) -> str:
        return self.value or "ALL"

    def _one_of(self, words: tuple[str, ...], acceptable: str) -> str:
        found = self._begun(self.value, words)
        if found is None:
            raise self._wrong(acceptable)
        return found

    def _begun(self, value: str, words: tuple[str, ...]) -> str | None:
        return next((word for word in words if value and word.startswith(value.upper())), None)

    def _wrong(self, acceptable: str) -> ShimError:
        return ShimError(f"error: Invalid input: {self.word}", f"error: {acceptable}", _NO_ERROR)


# Slurm's name -> the field, and how its value is read.
_PARTITION: dict[str, tuple[str, Callable[[_Part], Any]]] = {
    "AllocNodes": ("alloc_nodes", _Part.hosts),
    "AllowAccounts": ("allow_accounts", _Part.allowed),
    "AllowGroups": ("allow_groups", _Part.allowed),
    "AllowQos": ("allow_qos", _Part.allowed),
    "Default": ("default", _Part.flag),
    "DefaultTime": ("default_time", _Part.time),
    "DefMemPerCPU": ("def_mem_per_cpu", _Part.count),
    "DefMemPerNode": ("def_mem_per_node", _Part.count),
    "DenyAccounts": ("deny_accounts", _Part.text),
    "DenyQos": ("deny_qos", _Part.text),
    "DisableRootJobs": ("disable_root_jobs", _Part.flag),
    "Hidden": ("hidden", _Part.flag),
    "LLN": ("lln", _Part.flag),
    "MaxCPUsPerNode": ("max_cpus_per_node", _Part.count),
    "MaxMemPerCPU": ("max_mem_per_cpu", _Part.count),
    "MaxMemPerNode": ("max_mem_per_node", _Part.count),
    "MaxNodes": ("max_nodes", _Part.count),
    "MaxTime": ("max_time", _Part.time),
    "MinNodes": ("min_nodes", _Part.nodes),
    "Nodes": ("nodes", _Part.text),
    "OverSubscribe": ("oversubscribe", _Part.sharing),
    "PartitionName": ("", _Part.text),
    "PriorityTier": ("priority_tier", _Part.number),
    "ReqResv": ("req_resv", _Part.flag),
    "RootOnly": ("root_only", _Part.flag),
    "Shared": ("oversubscribe", _Part.sharing),
    "State": ("state", _Part.state),
}
_PARTITION_UNKNOWN_HERE = [
    "alternate",
    "cpubind",
    "exclusiveuser",
    "gracetime",
    "jobdefaults",
    "overtimelimit",
    "preemptmode",
    "priority",
    "priorityjobfactor",
    "qos",
    "tresbillingweights",
]


def partition(session: Session, words: list[str]) -> int:
    """``update partitionname=debug state=down``; the exit code."""
    known = {name.lower(): name for name in _PARTITION}
    asked = ""
    fields: dict[str, Any] = {}
    for key, value, word in pairs(words):
        if value is None:
            raise ShimError(f"error: Invalid input: {word}  Request aborted", _NO_ERROR)
        name = None if key.lower() in _PARTITION_UNKNOWN_HERE else _beginning(key, known)
        if name is None:
            if _beginning(key, {one: one for one in _PARTITION_UNKNOWN_HERE}):
                raise Unsupported(f"error: update of {key} of a partition is not supported here")
            lines = (f"error: Update of this parameter is not supported: {word}\n", "error: Request aborted")
            raise ShimError(*lines, _NO_ERROR)
        field, read = _PARTITION[name]
        if field:
            fields[field] = read(_Part(name, value, word))
        else:
            asked = value
    if not fields:
        raise ShimError("error: No changes specified")
    if fields.get("min_nodes", 0) is None:  # told, and Slurm's exit code is 0 all the same
        del fields["min_nodes"]
        if not fields:
            return 0
    return _ask(session, "change_partition", asked, fields)
