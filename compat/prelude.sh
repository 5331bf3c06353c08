# Functions for the "run" section of a case. The runner sets RECORD, a folder for what is recorded, and LIMIT, the seconds
# after which a wait gives up. Everything is bash; the work folder is the current one.

# A command that loops must not fill the disk.
ulimit -f 1048576

step=0
ID=          # of the last job submitted by a recorded sbatch
JOBS=()      # all of them

# run COMMAND…: run it and record its standard output, standard error and exit code. Standard input is the caller's.
run() {
  local n=$((++step)) code=0
  printf '%s' "$*" >"$RECORD/$n.command"
  "$@" >"$RECORD/$n.out" 2>"$RECORD/$n.err" || code=$?
  printf '%s' "$code" >"$RECORD/$n.code"
  if [[ $1 == sbatch && $(<"$RECORD/$n.out") =~ (7[0-9]{5}) ]]; then
    ID=${BASH_REMATCH[1]}
    JOBS+=("$ID")
  fi
}

# note TEXT COMMAND…: as run, recorded under TEXT instead of the command itself (which may be a function of the case).
note() {
  local text=$1
  shift
  run "$@"
  printf '%s' "$text" >"$RECORD/$step.command"
}

# What the queue and the nodes looked like then tells why.
give_up() {
  {
    echo "gave up waiting for: $*"
    squeue -t all -o '%i %T %r %S %e %N'
    sinfo -N -o '%N %T %E'
  } >>"$RECORD/failure" 2>&1
  exit 99
}

# until_true COMMAND…: repeat it (its output is dropped) until it succeeds.
until_true() {
  local end=$((SECONDS + LIMIT))
  until "$@" >/dev/null 2>&1; do
    ((SECONDS < end)) || give_up "$*"
    sleep 0.1
  done
}

_is_over() {
  local said
  if said=$(squeue -h -j "$1" 2>&1); then [[ -z $said ]]; else [[ $said == *"Invalid job id"* ]]; fi
}
_is_in_state() { squeue -h -t all -o '%T' -j "$1" | grep -qx "$2"; }
_are_all_over() { local job; for job; do _is_over "$job" || return 1; done; }

# ended [ID…]: wait until the jobs (default: all submitted ones) have ended.
ended() {
  (($#)) || set -- "${JOBS[@]}"
  until_true _are_all_over "$@"
}

# settled: wait until no job of this user is still leaving its nodes.
_is_settled() { local said; said=$(squeue -h -u "$(id -un)" -t CG -o %i 2>&1) && [[ -z $said ]]; }
settled() { until_true _is_settled; }

# in_state ID STATE: wait until the job (of an array: one of its tasks) is in that state.
in_state() { until_true _is_in_state "$1" "$2"; }

# holds FILE TEXT: wait until a line of the file is TEXT.
holds() { until_true grep -qx -- "$2" "$1"; }

_fields() {
  local record=$1 name
  shift
  for name; do grep -o -m 1 -E "(^| )$name=[^ ]*" <<<"$record" | head -n 1 | sed 's/^ //'; done
}
_show() { local job=$1; shift; _fields "$(scontrol -o show job "$job")" "$@"; }

# show ID FIELD…: record these fields (without blanks) of "scontrol show job".
show() { note "show $*" _show "$@"; }
