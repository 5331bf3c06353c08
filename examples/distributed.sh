#!/bin/bash
# A distributed step without any library: four tasks on two nodes add up their ranks over TCP.
#
#   sbatch distributed.sh          (from the folder that holds allreduce.py, or give its path as argument)
#
# The pattern is the usual one of training scripts: the first node of the list is the meeting point, the port follows
# from the job id so that jobs that share a machine do not meet.

#SBATCH --job-name=allreduce
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
#SBATCH --time=5
#SBATCH --output=allreduce-%j.out

set -euo pipefail
program=${1:-allreduce.py}
MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))
export MASTER_ADDR MASTER_PORT

srun --kill-on-bad-exit=1 python3 "$program"
