#!/bin/bash
# Work that takes longer than the time limit: warned a minute before the end, the job saves its state and puts itself
# back into the queue; the next life goes on where the last one stopped.
#
#   sbatch checkpoint.sh 100000
#
# "B:" sends the signal to this shell only. The work runs in the background because bash handles a signal only between
# commands, or at once in "wait".

#SBATCH --job-name=checkpoint
#SBATCH --time=10
#SBATCH --signal=B:USR1@60
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=checkpoint-%j.out

steps=${1:-100}
state=checkpoint-$SLURM_JOB_ID.state

count() {
  local n
  n=$(cat "$state" 2>/dev/null || echo 0)
  trap 'echo "$n" >"$state"; exit 1' TERM
  while ((n < steps)); do
    ((n += 1))
    sleep 0.1
  done
  echo "$n" >"$state"
}

again() {
  echo "life ${SLURM_RESTART_COUNT:-0}: out of time, saving"
  kill -TERM "$work"
  wait "$work"
  echo "life ${SLURM_RESTART_COUNT:-0}: saved, once more"
  scontrol requeue "$SLURM_JOB_ID"
  # Slurm ends this life now; nothing that follows may run.
  sleep 60
  exit 1
}
trap again USR1

echo "life ${SLURM_RESTART_COUNT:-0}: from $(cat "$state" 2>/dev/null || echo 0)"
count &
work=$!
wait "$work"
echo "life ${SLURM_RESTART_COUNT:-0}: done at $(cat "$state")"
