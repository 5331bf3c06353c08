#!/bin/bash
# One task for each line of a file, at most two at a time. Every task has its own output file.
#
#   printf '%s\n' apple pear plum >inputs.txt
#   sbatch array.sh inputs.txt

#SBATCH --job-name=lines
#SBATCH --array=1-3%2
#SBATCH --time=5
#SBATCH --output=lines-%A_%a.out

set -euo pipefail
line=$(sed -n "${SLURM_ARRAY_TASK_ID}p" "$1")
echo "task $SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_TASK_COUNT: $line has ${#line} letters"
