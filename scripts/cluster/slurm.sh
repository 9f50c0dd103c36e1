#!/usr/bin/env bash
# Runs a simulation in shards as a Slurm job array, and merges them in a job that waits for all of them.
#
#     scripts/cluster/slurm.sh SHARDS FOLDER SUBCOMMAND [OPTION...]
#     scripts/cluster/slurm.sh 64 sweep variance --dk 16..4096 --trials 1e6
#
# FOLDER, on a file system that all nodes see, gets shard-I.csv and its log, and in the end result.csv and trials.csv: byte for byte those
# of `attn SUBCOMMAND OPTION... -o result.csv --per-trial trials.csv`. A task that is killed and requeued goes on where it was; the same
# command again runs what is missing. Prints the numbers of both jobs; the merge job's exit code is the verdict's.
#
# ATTN: the program (attn on the PATH). ATTN_THREADS: threads a task (1). sbatch reads SBATCH_PARTITION, SBATCH_TIMELIMIT and so on.
set -euo pipefail
if [ $# -lt 3 ]; then
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
shards=$1 folder=$2
shift 2
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$folder"
array=$(sbatch --parsable --array="1-$shards" --cpus-per-task="${ATTN_THREADS:-1}" --output="$folder/shard-%a.log" \
    "$here/shard.sbatch" "$shards" "$folder" "$@")
array=${array%%;*}
merge=$(sbatch --parsable --dependency="afterok:$array" --kill-on-invalid-dep=yes --output="$folder/merge.log" \
    "$here/merge.sbatch" "$shards" "$folder")
echo "$array ${merge%%;*}"
