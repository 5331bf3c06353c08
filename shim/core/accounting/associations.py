"""Clusters, users, accounts and QOS of a site without a database, and who may use what, as records by column.

Accounts and QOS are labels here: everybody may use each of them. So those are known that a partition's list or a job names, and every
user has an association with every account. No limits are kept: their columns are empty.
"""

from __future__ import annotations

from shim.core.formats.tres import GPUS, TRES_NUMBERS
from shim.core.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from shim.core.model.cluster import Cluster

    Record = dict[str, str]  # header of a column -> what stands there

ROOT = "root"  # the account above all others, and the user who may do everything
NORMAL = "normal"  # the QOS of jobs that name none
_PROTOCOLS = {"22.05": "9728", "25.11": "11264"}  # the number of a release's messages
_SELECT_PLUGIN = "109"  # cons_tres
_LISTS = ("allow_accounts", "deny_accounts")
_QOS_LISTS = ("allow_qos", "deny_qos")


class Labels(Value):
    """What one user's jobs on one cluster name; empty for nothing."""

    cluster: str
    user: str
    account: str = ""
    qos: str = ""
    wckey: str = ""


class Site:
    """All that is known. ``admins``: user -> Administrator or Operator; ``users``: further ones; ``host``: where the controller is."""

    def __init__(
        self,
        clusters: Sequence[Cluster],
        labels: Sequence[Labels],
        admins: dict[str, str],
        users: Iterable[str] = (),
        host: str = "",
    ) -> None:
        names = {cluster.name for cluster in clusters}
        self._clusters = clusters
        self._host = host
        self._labels = [one for one in labels if one.cluster in names]
        self._admins = {**admins, ROOT: "Administrator"}
        accounts = {name.lower() for name in _listed(clusters, _LISTS)} | {one.account for one in self._labels}
        self.accounts = sorted(accounts - {"", ROOT})
        qos = {*_listed(clusters, _QOS_LISTS), *(one.qos for one in self._labels)}
        self.qos = [NORMAL, *sorted(qos - {"", NORMAL})]
        self.users = [ROOT, *sorted({*self._admins, *users, *(one.user for one in self._labels)} - {"", ROOT})]

    def clusters(self) -> list[Record]:
        """A record for each cluster."""
        return [
            {
                "Cluster": cluster.name,
                "ControlHost": self._host,
                "ControlPort": "0",
                "RPC": _PROTOCOLS.get(cluster.version[:5], "0"),
                "NodeCount": str(len(cluster.nodes)),
                "TRES": _tres_of(cluster),
                "Flags": "None",
                "FedState": "NA",
                "ID": "0",
                "PluginIDSelect": _SELECT_PLUGIN,
                "Share": "1",
                **self._all_qos(),
            }
            for cluster in self._clusters
        ]

    def user_records(self) -> list[Record]:
        """A record for each user."""
        return [
            {"User": user, "Def Acct": ROOT if user == ROOT else "", "Admin": self._admins.get(user, "None")}
            for user in self.users
        ]

    def account_records(self) -> list[Record]:
        """A record for each account."""
        top = {"Account": ROOT, "Descr": "default root account", "Org": ROOT}
        return [*({"Account": name, "Descr": name, "Org": name} for name in self.accounts), top]

    def associations(self) -> list[Record]:
        """Who may use what: each cluster's root account and its user, then the accounts with their users."""
        found: list[Record] = []
        for cluster in self._clusters:
            # How a tree is numbered: each has the numbers of all below it between its own two.
            end = 2 * (2 + len(self.accounts) * (1 + len(self.users)))
            top = len(found) + 1
            found.append(self._association(cluster, ROOT, "", (top, 0, ""), (1, end)))
            found.append(self._association(cluster, ROOT, ROOT, (top + 1, top, ""), (2, 3)))
            left = 4
            for account in self.accounts:
                here = len(found) + 1
                right = left + 2 * len(self.users) + 1
                found.append(self._association(cluster, account, "", (here, top, ROOT), (left, right)))
                for place, user in enumerate(self.users):
                    first = left + 1 + 2 * place
                    found.append(
                        self._association(cluster, account, user, (len(found) + 1, here, ""), (first, first + 1))
                    )
                left = right + 1
        return found

    def _association(
        self, cluster: Cluster, account: str, user: str, line: tuple[int, int, str], ends: tuple[int, int]
    ) -> Record:
        number, parent, parent_name = line
        return {
            "Cluster": cluster.name,
            "Account": account,
            "User": user,
            "Share": "1",
            "ID": str(number),
            "ParentID": str(parent),
            "ParentName": parent_name,
            "LFT": str(ends[0]),
            "RGT": str(ends[1]),
            **self._all_qos(),
        }

    def _all_qos(self) -> Record:
        return {"QOS": ",".join(self.qos), "QOS_RAW": ",".join(str(number + 1) for number in range(len(self.qos)))}

    def qos_records(self) -> list[Record]:
        """A record for each QOS; none has a priority or a limit."""
        return [
            {
                "Name": name,
                "ID": str(number + 1),
                "Descr": "Normal QOS default" if name == NORMAL else name,
                "Priority": "0",
                "GraceTime": "00:00:00",
                "PreemptMode": "cluster",
                "UsageFactor": "1.000000",
            }
            for number, name in enumerate(self.qos)
        ]

    def tres(self) -> list[Record]:
        """What is counted of jobs."""
        gpus = any(node.gpus for cluster in self._clusters for node in cluster.nodes)
        found = [(number, *tres.partition("/")) for tres, number in TRES_NUMBERS.items() if tres != GPUS or gpus]
        return [{"Type": kind, "Name": name, "ID": str(number)} for number, kind, _, name in found]

    def wckeys(self) -> list[Record]:
        """The keys that jobs name, by whom and where."""
        found = {(one.wckey, one.cluster, one.user) for one in self._labels if one.wckey}
        return [{"WCKey": key, "Cluster": cluster, "User": user} for key, cluster, user in sorted(found)]


def _listed(clusters: Sequence[Cluster], fields: Sequence[str]) -> set[str]:
    """The names in these lists of all partitions."""
    texts = [getattr(partition, field) for cluster in clusters for partition in cluster.partitions for field in fields]
    return {name for text in texts if text.upper() != "ALL" for name in text.split(",") if name}


def _tres_of(cluster: Cluster) -> str:
    cpus = sum(node.cpus for node in cluster.nodes)
    gpus = sum(node.gpus for node in cluster.nodes)
    counted = [f"billing={cpus}", f"cpu={cpus}", *([f"gres/gpu={gpus}"] if gpus else [])]
    return ",".join([*counted, f"mem={sum(node.memory for node in cluster.nodes)}M", f"node={len(cluster.nodes)}"])
