#!/bin/bash
# A chain of jobs: prepare, then two runs at once, then a summary when both have succeeded, and a report if one has not.
# This file is no job itself, it submits them:
#
#   bash chain.sh

set -euo pipefail

submit() { sbatch --parsable --time=5 --output=/dev/null "$@"; }

prepare=$(submit --job-name=prepare --wrap 'seq 10 >numbers.txt')
odd=$(submit --job-name=odd --dependency="afterok:$prepare" --wrap 'awk "\$1 % 2" numbers.txt >odd.txt')
even=$(submit --job-name=even --dependency="afterok:$prepare" --wrap 'awk "\$1 % 2 == 0" numbers.txt >even.txt')
summary=$(submit --job-name=summary --dependency="afterok:$odd:$even" --wrap 'wc -l odd.txt even.txt >summary.txt')
# Waits for a failure that never comes; --kill-on-invalid-dep takes it away when the runs have succeeded.
submit --job-name=report --dependency="afternotok:$odd?afternotok:$even" --kill-on-invalid-dep=yes \
  --wrap 'echo "a run has failed" >report.txt' >/dev/null

echo "submitted: the last of the chain is job $summary"
