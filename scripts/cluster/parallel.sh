#!/usr/bin/env bash
# Runs a simulation in shards with GNU parallel, and merges them: slurm.sh without a cluster.
#
#     scripts/cluster/parallel.sh SHARDS FOLDER SUBCOMMAND [OPTION...]
#     scripts/cluster/parallel.sh 8 sweep variance --dk 16..1024 --trials 1e5
#
# A shard that fails or is killed is tried three times and goes on where it was; the same command again runs what is missing. Exit code: the
# verdict's, or 2 if a shard could not be run.
#
# ATTN: the program (attn on the PATH). ATTN_THREADS: threads a shard (1). PARALLEL: further options, for example
# '--sshlogin a,b --workdir .' for several machines with the same folders, or '--jobs 4'.
set -euo pipefail
if [ $# -lt 3 ]; then
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
shards=$1 folder=$2
shift 2
attn=${ATTN:-attn}
mkdir -p "$folder"
if ! seq "$shards" | parallel --will-cite --quote --retries 3 --joblog "$folder/jobs.log" \
    "$attn" "$@" --threads "${ATTN_THREADS:-1}" --shard "{}/$shards" --resume "$folder/shard-{}.csv"; then
    echo "parallel.sh: a shard could not be run, see above and $folder/jobs.log" >&2
    exit 2
fi
files=()
for ((index = 1; index <= shards; index++)); do
    files+=("$folder/shard-$index.csv")
done
exec "$attn" merge "${files[@]}" -o "$folder/result.csv" --per-trial "$folder/trials.csv"
