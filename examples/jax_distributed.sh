#!/bin/bash
# A distributed step with JAX on CPUs: nothing is passed on, jax.distributed.initialize() finds its peers from SLURM_*.
#
#   python3 -m venv jaxenv && jaxenv/bin/pip install jax
#   sbatch jax_distributed.sh jaxenv/bin/python       (from the folder that holds jax_distributed.py)

#SBATCH --job-name=jax
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --time=5
#SBATCH --output=jax-%j.out

export JAX_PLATFORMS=cpu
srun --label --kill-on-bad-exit=1 "${1:-python3}" jax_distributed.py
