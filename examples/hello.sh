#!/bin/bash
# Two nodes. The script itself runs once, on the first node; srun starts a task on each of them.
#
#   sbatch hello.sh
#   cat hello-*.out

#SBATCH --job-name=hello
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --time=5
#SBATCH --output=hello-%j.out

echo "job $SLURM_JOB_ID has $SLURM_JOB_NUM_NODES nodes: $SLURM_JOB_NODELIST"
srun --label bash -c 'echo "task $SLURM_PROCID of $SLURM_NTASKS on $SLURMD_NODENAME"'
