#!/usr/bin/env python3
# /// script
# requires-python = ">=3.10"
# dependencies = ["numpy", "torch"]
# ///
"""Times a trial of `attn variance` in turn with NumPy and PyTorch doing the same job, and writes a CSV of medians.

    python3 benches/compare.py -o data/recorded/benchmark.csv [--rounds 5] [--threads 2]

Every round runs each program once; the figure is the median over the rounds, a ratio is peer / attn taken round by
round. Eager peers only: `slabs` (the strongest reasonable form) and `plain` (what most people write). Times of `attn`
are the mean over the trials of one run; those of the peers are the median over the trials of one process.
"""
import argparse
import csv
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
# (d_k, n, trials of attn, trials of a peer)
SHAPES = [(64, 512, 400, 40), (64, 4096, 20, 6), (1, 2048, 100, 12), (512, 512, 200, 30)]
PEERS = [("numpy", "slabs"), ("numpy", "plain"), ("torch", "slabs"), ("torch", "plain")]


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.strip().splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    os.chdir(HERE.parent)
    built = subprocess.run(
        ["cargo", "bench", "--bench", "variance", "--no-run", "--message-format=json"],
        capture_output=True, text=True, check=True)
    binaries = [json.loads(line).get("executable") for line in built.stdout.splitlines() if line.startswith("{")]
    binary = [path for path in binaries if path][-1]
    rows = []
    for dtype in ("f32", "f64"):
        for d_k, n, own_trials, peer_trials in SHAPES:
            shape = ["--n", str(n), "--dk", str(d_k), "--dtype", dtype, "--threads", str(arguments.threads)]
            times = {}
            memory = {}
            for _ in range(arguments.rounds):
                programs = [(("attn", "fused"), [binary, *shape, "--trials", str(own_trials)])]
                programs += [((name, method), [sys.executable, f"{HERE}/peers/{name}_variance.py", *shape, "--trials",
                             str(peer_trials), "--method", method]) for name, method in PEERS]
                for key, command in programs:
                    line = run(command)
                    times.setdefault(key, []).append(line["median_ms"]["total"])
                    memory[key] = max(memory.get(key, 0), line["peak_mib"])
                    version = line["version"]
                    rows_key = (*key, version)
                    memory[("version", key)] = rows_key[2]
            own = times["attn", "fused"]
            for key, values in times.items():
                ratios = [value / mine for value, mine in zip(values, own)]
                rows.append({
                    "program": key[0], "method": key[1], "program_version": memory["version", key], "d_k": d_k, "n": n,
                    "dtype": dtype, "threads": arguments.threads, "rounds": arguments.rounds,
                    "milliseconds": f"{statistics.median(values):.4g}",
                    "trials_per_second": f"{1e3 / statistics.median(values):.4g}",
                    "ratio": f"{statistics.median(ratios):.3g}", "ratio_low": f"{min(ratios):.3g}",
                    "ratio_high": f"{max(ratios):.3g}", "peak_mebibytes": memory[key]})
                print(rows[-1], file=sys.stderr)
    with open(arguments.output, "w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=rows[0])
        writer.writeheader()
        writer.writerows(rows)
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}", file=sys.stderr)


if __name__ == "__main__":
    main()
