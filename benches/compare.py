#!/usr/bin/env python3
# /// script
# requires-python = ">=3.10"
# dependencies = ["numpy", "torch"]
# ///
"""Times a trial of `attn variance` and `attn softmax-spikiness` in turn with NumPy and PyTorch doing the same job.

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
# job: (d_k, n, trials of attn, trials of a peer)
SHAPES = {
    "variance": [(64, 512, 400, 40), (64, 4096, 20, 6), (1, 2048, 100, 12), (512, 512, 200, 30)],
    "spikiness": [(64, 512, 200, 30), (64, 4096, 12, 4)],
}
JOBS = [(job, dtype, *shape) for job, shapes in SHAPES.items() for dtype in ("f32", "f64") for shape in shapes]
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
        ["cargo", "bench", "--bench", "trial", "--no-run", "--message-format=json"],
        capture_output=True, text=True, check=True)
    lines = [json.loads(line) for line in built.stdout.splitlines() if line.startswith("{")]
    binary = next(line["executable"] for line in lines if line.get("target", {}).get("name") == "trial")
    rows = []
    for job, dtype, d_k, n, own_trials, peer_trials in JOBS:
        shape = ["--n", str(n), "--dk", str(d_k), "--dtype", dtype, "--threads", str(arguments.threads)]
        times = {}
        memory = {}
        versions = {}
        for _ in range(arguments.rounds):
            programs = [(("attn", "fused"), [binary, *shape, "--job", job, "--trials", str(own_trials)])]
            programs += [((name, method), [sys.executable, f"{HERE}/peers/{name}_{job}.py", *shape, "--trials",
                         str(peer_trials), "--method", method]) for name, method in PEERS]
            for key, command in programs:
                line = run(command)
                times.setdefault(key, []).append(line["median_ms"]["total"])
                memory[key] = max(memory.get(key, 0), line["peak_mib"])
                versions[key] = line["version"]
        own = times["attn", "fused"]
        for key, values in times.items():
            ratios = [value / mine for value, mine in zip(values, own)]
            rows.append({
                "job": job, "program": key[0], "method": key[1], "program_version": versions[key],
                "d_k": d_k, "n": n, "dtype": dtype, "threads": arguments.threads,
                "rounds": arguments.rounds, "milliseconds": f"{statistics.median(values):.4g}",
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
