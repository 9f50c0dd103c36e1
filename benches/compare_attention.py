#!/usr/bin/env python3
# /// script
# requires-python = ">=3.10"
# dependencies = ["numpy", "torch"]
# ///
"""Times full attention of `attn` in turn with PyTorch's `scaled_dot_product_attention` on the CPU.

    python3 benches/compare_attention.py [--n 4096] [--dk 64] [--dtype f32] [--threads 2] [--rounds 5] [--trials 9]

Every round runs each program once. Prints each round's milliseconds and the median of the ratios peer / attn, for attention alone
and with the sampling of Q, K and V.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.strip().splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (("n", 4096), ("dk", 64), ("threads", 2), ("rounds", 5), ("trials", 9)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--dtype", choices=("f32", "f64"), default="f32")
    parser.add_argument("--binary", help="the built benchmark; default: built now")
    a = parser.parse_args()
    os.chdir(HERE.parent)
    binary = a.binary
    if binary is None:
        built = subprocess.run(
            ["cargo", "bench", "--bench", "attention", "--no-run", "--message-format=json"],
            capture_output=True, text=True, check=True)
        lines = [json.loads(line) for line in built.stdout.splitlines() if line.startswith("{")]
        binary = next(line["executable"] for line in lines if line.get("target", {}).get("name") == "attention")
    shape = ["--n", str(a.n), "--dk", str(a.dk), "--dtype", a.dtype, "--threads", str(a.threads), "--trials", str(a.trials)]
    alone, together = [], []
    for _ in range(a.rounds):
        own = run([binary, *shape])
        peer = run([sys.executable, f"{HERE}/peers/torch_attention.py", *shape])
        mine, theirs = own["median_ms"], peer["median_ms"]
        alone.append(theirs["attention"] / mine["attention"])
        together.append((theirs["attention"] + theirs["sample"]) / (mine["attention"] + mine["sample"]))
        print(f"attn {mine}, {own['peak_mib']} MiB; torch {theirs}, {peer['peak_mib']} MiB", flush=True)
    for name, ratios in (("attention", alone), ("with sampling", together)):
        print(f"torch / attn, {name}: {statistics.median(ratios):.3g} ({min(ratios):.3g}-{max(ratios):.3g})")
    print(f"load {os.getloadavg()}")


if __name__ == "__main__":
    main()
