#!/usr/bin/env python3
"""Where the time of a trial goes, by Linux's `perf`: what bounds each job.

    python3 benches/profile.py -o data/recorded/profile.csv

Builds the benchmarks with symbols, samples each job on one thread, and adds the samples up by stage. Needs `perf record` to be allowed.
"""
import argparse
import csv
import os
import pathlib
import re
import subprocess
import tempfile

from cargo import built

HERE = pathlib.Path(__file__).resolve().parent
# (job, type, n, trials); d = 64.
JOBS = [
    ("variance", "f32", 256, 15000), ("variance", "f32", 4096, 60), ("variance", "f64", 4096, 30),
    ("spikiness", "f32", 256, 8000), ("spikiness", "f32", 4096, 40), ("spikiness", "f64", 4096, 20),
    ("moments", "f32", 16384, 300), ("attention", "f32", 4096, 25),
]
# The first that fits a symbol.
STAGES = [
    ("draws", r"sampling::"),
    ("packing", r"transpose|pack::|repack"),
    ("logits and their power sums", r"power_sums|reduce_tile"),
    ("logits", r"x86::avx\w+::f\d\d::(logits|store_tile)|portable::logits"),
    ("exponentials and sums of weights", r"row_sums|attention_loops|row_statistics|kernel::softmax"),
    ("weights times values", r"signed_sums|weighted_values"),
    ("sums over entries", r"pair_sums|gram::"),
]
REST = "rest"
SYMBOLS = {"CARGO_PROFILE_RELEASE_STRIP": "none", "CARGO_PROFILE_RELEASE_DEBUG": "line-tables-only"}


def profile(binary, job, dtype, n, trials, folder):
    """Share of each stage, and the samples."""
    options = [] if job == "attention" else ["--job", job]
    samples = folder / "perf.data"
    command = [binary, *options, "--n", str(n), "--dk", "64", "--dtype", dtype, "--trials", str(trials), "--threads", "1"]
    subprocess.run(["perf", "record", "--freq", "4000", "-o", samples, *command], capture_output=True, check=True)
    report = subprocess.run(["perf", "report", "-i", samples, "--stdio", "-F", "sample,symbol"], capture_output=True, text=True, check=True)
    counts = {}
    for line in report.stdout.splitlines():
        found = re.match(r"\s*(\d+)\s+\[[.k]\] (.+)", line)
        if found:
            stage = next((stage for stage, symbols in STAGES if re.search(symbols, found[2])), REST)
            counts[stage] = counts.get(stage, 0) + int(found[1])
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", required=True)
    a = parser.parse_args()
    os.chdir(HERE.parent)
    binaries = built("bench", "--bench", "trial", "--bench", "attention", "--no-run", **SYMBOLS)
    with tempfile.TemporaryDirectory() as folder, open(a.output, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["job", "dtype", "n", "d_k", "stage", "share", "samples"])
        for job, dtype, n, trials in JOBS:
            counts = profile(binaries["attention" if job == "attention" else "trial"], job, dtype, n, trials, pathlib.Path(folder))
            total = sum(counts.values())
            for stage, _ in [*STAGES, (REST, "")]:
                if counts.get(stage):
                    writer.writerow([job, dtype, n, 64, stage, f"{counts[stage] / total:.4f}", total])


if __name__ == "__main__":
    main()
