#!/bin/bash
# Two tasks with a GPU each. Slurm chooses the GPUs; a task sees its own in CUDA_VISIBLE_DEVICES and no others.
#
#   sbatch gpu.sh
#
# On a machine without GPUs the job is refused: "Requested node configuration is not available".

#SBATCH --job-name=gpu
#SBATCH --ntasks=2
#SBATCH --gpus-per-task=1
#SBATCH --time=5
#SBATCH --output=gpu-%j.out

echo "the job has GPUs $SLURM_JOB_GPUS on $SLURMD_NODENAME"
srun --label bash -c 'echo "GPU $CUDA_VISIBLE_DEVICES is mine"'
