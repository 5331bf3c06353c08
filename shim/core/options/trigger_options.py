"""The options of strigger (22.05), in Slurm's order. One row each: ``getopt.Row``."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Tuple

    from shim.core.options.getopt import Row

    Rows = Tuple[Row, ...]
else:
    Row = dict


# fmt: off
def strigger() -> Rows:
    """Those of strigger."""
    backup = "refused: there is no backup controller"
    database = "refused: there is no slurmdbd"
    return (
        Row(name="primary_slurmctld_failure", short="a", help="when the controller has died"),
        Row(name="primary_slurmctld_resumed_operation", short="A", help="when there is one again after that"),
        Row(name="primary_slurmctld_resumed_control", short="b", help="when it has control again", support=backup),
        Row(name="backup_slurmctld_failure", short="B", help="when the backup controller fails", support=backup),
        Row(name="backup_slurmctld_resumed_operation", short="c", help="when it is there again", support=backup),
        Row(name="backup_slurmctld_assumed_control", short="C", help="when it takes over", support=backup),
        Row(name="down", short="d", help="when a node goes down"),
        Row(name="drained", short="D", help="when a node is drained"),
        Row(name="primary_slurmctld_acct_buffer_full", short="e", help="when too much is to be told to the database",
            support=database),
        Row(name="fini", short="f", help="when the job has ended"),
        Row(name="fail", short="F", help="when a node is expected to fail", support="refused: no node is ever FAILING"),
        Row(name="primary_slurmdbd_failure", short="g", help="when slurmdbd fails", support=database),
        Row(name="primary_slurmdbd_resumed_operation", short="G", help="when it is there again", support=database),
        Row(name="primary_database_failure", short="h", help="when the database fails", support=database),
        Row(name="primary_database_resumed_operation", short="H", help="when it is there again", support=database),
        Row(name="id", short="i", takes="=number", help="this trigger"),
        Row(name="idle", short="I", help="when a node stays idle",
            support="refused: since when a node is idle is not recorded"),
        Row(name="jobid", short="j", takes="=job", help="of this job, or of its nodes"),
        Row(name="cluster", spelling_of="clusters", short="M", takes="=name"),
        Row(name="clusters", short="M", takes="=name", env="SLURM_CLUSTERS", help="the cluster to use",
            support="honoured: a real Slurm; one controller sees to all others"),
        Row(name="node", short="n", takes="[=hosts]", help="of these nodes; of all"),
        Row(name="noheader", short="N", help="no header"),
        Row(name="offset", short="o", takes="=seconds", help="so long after it, or before the time limit (-)"),
        Row(name="program", short="p", takes="=path", help="the program, with arguments"),
        Row(name="quiet", short="Q", help="no error where there is nothing to clear"),
        Row(name="reconfig", short="r", help="when the configuration, or a node's state, is another one"),
        Row(name="time", short="t", help="when the job reaches its time limit"),
        Row(name="up", short="u", help="when a node is no longer down"),
        Row(name="verbose", short="v", help="say more"),
        Row(name="version", short="V", help="print the version"),
        Row(name="burst_buffer", help="when a burst buffer fails", support="refused: there are no burst buffers"),
        Row(name="clear", help="remove triggers"),
        Row(name="flags", takes="=PERM", help="the trigger stays after it has fired"),
        Row(name="front_end", help="of front ends, not nodes", support="refused: there are no front ends"),
        Row(name="get", help="list triggers"),
        Row(name="help", help="this text"),
        Row(name="set", help="make a trigger"),
        Row(name="usage", help="the options in brief"),
        Row(name="user", takes="=user", help="those of this user"),
    )
# fmt: on
