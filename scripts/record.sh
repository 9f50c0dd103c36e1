#!/usr/bin/env bash
# Records the outputs that README and docs show: data/recorded/NAME.txt, with the command on the first line and below it what
# standard error and standard output said. Run it after a change that moves numbers, then `python3 scripts/readme.py`.
#
#     scripts/record.sh              all of them
#     scripts/record.sh variance     only the named ones
#
# Builds the program in release first. Everything it runs is deterministic, so recording twice gives the same files; the one
# exception, the times of `complexity`, is recorded only when named.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo build --release --quiet
target=$(cargo metadata --format-version 1 --no-deps --offline | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
PATH="$target/release:$PATH"
export PATH NO_COLOR=1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
recorded=$PWD/data/recorded
mkdir -p "$recorded"

wanted=("$@")
# record NAME COMMAND: the first line of the file is `$ COMMAND`, which a shell runs as it stands.
record() {
    local name=$1 command=$2
    if [ ${#wanted[@]} -gt 0 ] && [[ " ${wanted[*]} " != *" $name "* ]]; then
        return
    fi
    echo "$name: $command" >&2
    printf '$ %s\n' "$command" > "$work/recording"
    (cd "$work" && bash -c "$command") >> "$work/recording" 2>&1 || true
    mv "$work/recording" "$recorded/$name.txt"
}

# The picture at the top of README; the text file has its command.
record picture 'attn variance --dk 16..1024 --plot picture.png -q -o sweep.csv'
if [ -e "$work/picture.png" ]; then
    mv "$work/picture.png" "$recorded/picture.png"
fi
record help 'attn variance -h'
record variance 'attn variance --dk 64 --format table; echo "exit code $?"'
record sweep 'attn variance --dk 16..1024 --format table; echo "exit code $?"'
record mean 'attn variance --dk 64 --mean 0.1 --format table; echo "exit code $?"'
record correlation 'attn variance --dk 64 --queries 64 --correlation 0.3 --format table; echo "exit code $?"'
record spikiness 'attn softmax-spikiness --dk 64 --format table; echo "exit code $?"'
record mask 'attn mask --format table; echo "exit code $?"'
record mask-claim 'attn mask --kind window:65 --claim window:64 --queries 256 --format table; echo "exit code $?"'
record positional 'attn positional --offset 1,64 --scale inv-sqrt-dk --format table; echo "exit code $?"'
record rotary 'attn positional --kind rotary --precision bf16 --offset 1,64 --scale inv-sqrt-dk --format table; echo "exit code $?"'
record cache 'attn kv-cache --precision bf16 --heads 8 --kv-heads 2 --window 128 --chunk 64 --format table; echo "exit code $?"'
record heads 'attn multi-head --d-model 256 --heads 4 --scale none --format table; echo "exit code $?"'
record depth 'attn depth --layers 3 --norm none --no-residual --no-mlp --format table; echo "exit code $?"'
ln -s "$PWD/data/real/minilm/minilm.safetensors" "$work/minilm.safetensors"
record audit 'attn audit minilm.safetensors --group single.layer3 --scale 1/dk --format table; echo "exit code $?"'
if [ ${#wanted[@]} -gt 0 ]; then
    record complexity 'attn complexity --format table; echo "exit code $?"'
fi
record check 'attn check -q --format table | sed -n "1,9p;\$p"'
# Needs PyTorch for python3.
record probe 'attn probe run --adapter torch --format table; echo "exit code $?"'
record small 'attn variance --dk 64 --queries 8 --trials 1 --format table; echo "exit code $?"'
record csv 'attn variance --dk 64 --quiet | head -n 3'
record json "attn variance --dk 64 --quiet --format json | head -n 8"
record error 'attn variance --dk 0; echo "exit code $?"'

# What a test does that takes the n·m logits of one draw for independent: |s²/d − 1| beyond the two-sided normal
# quantile of 1e-6 (4.8916385) times √((kurtosis − 1)/(nm)), the kurtosis of one logit being 3 + 6/d.
record naive 'attn variance --queries 1024 --dk 64 --scale none --trials 2000 --quiet --per-trial trials.csv > rows.csv; '\
'awk -F, '\''NR == 1 { for (i = 1; i <= NF; i++) if ($i == "logit_variance:none") column = i; next } '\
'{ trials++; z = ($column / 64 - 1) / sqrt((2 + 6 / 64) / (1024 * 1024)); if (z * z > 4.8916385 ^ 2) rejected++ } '\
'END { print rejected, "of", trials, "correct draws rejected at a nominal 1e-6" }'\'' trials.csv'

# Tables that scripts/plot is tested on: data/recorded/NAME.csv, the program's CSV and nothing else.
record_table() {
    local name=$1 command=$2
    if [ ${#wanted[@]} -gt 0 ] && [[ " ${wanted[*]} " != *" $name "* ]]; then
        return
    fi
    echo "$name: $command" >&2
    # A rejected or undecided claim is an exit code and no failure here.
    local code=0
    table=$work/recording.csv bash -c "$command" > /dev/null || code=$?
    [[ $code == [013] ]]
    mv "$work/recording.csv" "$recorded/$name.csv"
}

record_table plot_sweep 'attn variance --dk 16..256 -n 64 --mean 0.02 --trials 1009 -q -o $table'
record_table plot_trials 'attn variance --dk 64 -n 31 --trials 101 -q --per-trial $table'
record_table plot_check 'attn check -q -o $table'
record_table plot_audit 'attn audit data/real/minilm/minilm.safetensors -q -o $table'
# Times, which are never the same twice.
record_table plot_complexity 'attn complexity -n 64..512 --dk 32,64 --time-budget 4s -q -o $table'
# Needs NumPy for python3; with a fault, so that there is something wrong to be drawn.
record_table plot_probe "attn probe run $work/probe -q -o \$table -- python3 scripts/adapters/numpy_adapter.py --fault window_off_by_one"
