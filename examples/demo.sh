#!/bin/sh
# Runs a two-node job on this machine and shows what came out: `./dev demo`.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
PATH=$here/bin:$PATH
export SHIM_DEFAULT=local # on this machine, also where a real Slurm is at hand
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

cat > job.sh <<'SCRIPT'
#!/bin/bash
#SBATCH --job-name=demo
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
#SBATCH --time=5
echo "the script runs once, on $SLURMD_NODENAME; the job has $SLURM_JOB_NODELIST"
srun --label sh -c 'echo "task $SLURM_PROCID of $SLURM_NTASKS on node $SLURM_NODEID"' | sort
SCRIPT

echo '$ sbatch --wait job.sh'
sbatch --wait job.sh
echo "\$ cat slurm-*.out"
cat slurm-*.out
echo '$ sinfo'
sinfo
