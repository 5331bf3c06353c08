"""Checks for ReFrame: four tasks on two nodes, one task for each idle node, and one that fails."""

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import sanity_function


class Ranks(rfm.RunOnlyRegressionTest):
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    executable = "sh"
    executable_opts = ["-c", "'echo rank $SLURM_PROCID of $SLURM_NTASKS on node $SLURM_NODEID'"]
    time_limit = "5m"

    @sanity_function
    def ranks(self):
        found = sn.extractall(r"rank (\d) of 4 on node (\d)", self.stdout, (1, 2), int)
        return sn.assert_eq(sn.sorted(found), [(rank, rank * self.num_nodes // 4) for rank in range(4)])


@rfm.simple_test
class Tasks(Ranks):
    num_tasks = 4
    num_tasks_per_node = 2
    num_nodes = 2


@rfm.simple_test
class IdleNodes(Ranks):
    valid_systems = ["here:slurm"]
    num_tasks = 0  # as many as there are idle nodes
    num_tasks_per_node = 1
    num_nodes = 4


@rfm.simple_test
class Fails(rfm.RunOnlyRegressionTest):
    valid_systems = ["here:slurm"]
    valid_prog_environs = ["*"]
    executable = "sh"
    executable_opts = ["-c", "'exit 3'"]

    @sanity_function
    def code(self):
        return sn.assert_eq(self.job.exitcode, 0)
