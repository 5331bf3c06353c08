"""Two JAX processes, one on each node, find each other from SLURM_* and add up their ranks. See jax_distributed.sh."""

import jax

jax.distributed.initialize()  # coordinator, number of processes and rank: all from the step's environment

from jax.experimental import multihost_utils  # noqa: E402 - after the processes have met

ranks = multihost_utils.process_allgather(jax.numpy.array(jax.process_index()))
print(f"process {jax.process_index()} of {jax.process_count()}: the sum of all ranks is {int(ranks.sum())}", flush=True)
