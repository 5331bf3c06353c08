"""PMI-1 and PMI-2 (``srun --mpi=pmi2``): by these the tasks of MPICH, Intel MPI and MVAPICH find each other.

A task speaks to its node's agent over the descriptor PMI_FD (``server``); what a task publishes reaches the others' agents by way of the
leader when all tasks have come to a fence (``fence``).
"""
