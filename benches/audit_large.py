#!/usr/bin/env python3
# /// script
# requires-python = ">=3.10"
# dependencies = ["numpy"]
# ///
"""What `attn audit` of large heads costs, in turn with recomputing the same attention.

    python3 benches/audit_large.py [--n 8192] [--dk 64] [--heads 32] [--rounds 3] [--attn PROGRAM] [--bench PROGRAM]

Writes causal attentions by their definition (NumPy: f32 logits and softmax, weights and output rounded to f16, as models that run in
half precision do it) to .safetensors files in a temporary folder (n·n·2 bytes a head), sound ones and ones with a planted fault, and
audits each. CPU seconds are user and system time of all threads; memory is the largest resident set. The yardsticks are the crate's own
materialised attention in f32 (`cargo bench --bench attention`, one thread, Q, K and V in memory, all n·n weights formed) and NumPy's.
"""
import argparse
import json
import os
import pathlib
import resource
import statistics
import struct
import subprocess
import sys
import tempfile
import time

import numpy as np

from cargo import built

HERE = pathlib.Path(__file__).resolve().parent
BLOCK = 1024
WINDOW = 1024


def heads(n, d, count):
    """Q, K and V of each head, unit normal, in f16."""
    generator = np.random.default_rng(7)
    for _ in range(count):
        yield [generator.standard_normal((n, d)).astype(np.float16) for _ in "qkv"]


def attend(q, k, v, fault):
    """Blocks of rows of weights and output, in f32."""
    n, d = q.shape
    scale = np.float32(1 / d if fault == "scale" else d**-0.5)
    q, k, v = (matrix.astype(np.float32) for matrix in (q, k, v))
    key = np.arange(n)
    for first in range(0, n, BLOCK):
        query = np.arange(first, min(first + BLOCK, n))[:, None]
        logits = (q[first : first + BLOCK] @ k.T) * scale
        if fault == "window":
            logits[(key > query) | (key <= query - WINDOW - 1)] = -np.inf
        elif fault != "no mask":
            logits[key > query] = -np.inf
        logits -= logits.max(axis=1, keepdims=True)
        weights = np.exp(logits)
        weights /= weights.sum(axis=1, keepdims=True)
        if fault == "one weight" and first <= 5 * n // 8 < first + BLOCK:
            weights[5 * n // 8 - first, 17] += 0.01
        yield weights, weights @ v


def write(path, n, d, count, fault, with_weights):
    """A file of (1, heads, n, d) and, between the values and the output, (1, heads, n, n)."""
    header, offset = {}, 0
    names = ["q", "k", "v", "p", "o"] if with_weights else ["q", "k", "v", "o"]
    for name in names:
        shape = [1, count, n, n if name == "p" else d]
        size = 2 * count * n * shape[3]
        header[name] = {"dtype": "F16", "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    inputs, outputs = [list(matrices) for matrices in zip(*heads(n, d, count))], []
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for matrices in inputs:
            for matrix in matrices:
                file.write(matrix.tobytes())
        for q, k, v in zip(*inputs):
            for weights, output in attend(q, k, v, fault):
                if with_weights:
                    file.write(weights.astype(np.float16).tobytes())
                outputs.append(output.astype(np.float16).tobytes())
        file.write(b"".join(outputs))


def audit(program, path, options):
    """CPU seconds, MiB, and the findings that are neither PASS nor CANNOT TELL."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    # A child of its own, so that the largest resident set is that of this run.
    script = (
        "import json, resource, subprocess, sys\n"
        "done = subprocess.run(sys.argv[1:], capture_output=True, text=True)\n"
        "peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss\n"
        "print(json.dumps([done.returncode, done.stdout, done.stderr, peak]))\n"
    )
    command = [program, "audit", str(path), "--quiet", "--format", "json", *options]
    done = subprocess.run([sys.executable, "-c", script, *command], capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    code, output, errors, peak = json.loads(done.stdout)
    if code > 1:
        raise SystemExit(errors)
    alarms = [f"{row['verdict']} {row['check']}" for row in json.loads(output)["findings"] if row["verdict"] in ("FAIL", "WARN")]
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, peak / 1024, ", ".join(alarms) or "no alarm"


def kernel(program, n, d, trials):
    """CPU seconds of so many attentions (sampling Q, K and V included, 1 % of it), one for warming up, and starting."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    shape = ["--n", str(n), "--dk", str(d), "--dtype", "f32", "--threads", "1", "--trials", str(trials)]
    subprocess.run([program, *shape, "--method", "materialised"], capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (("n", 8192), ("dk", 64), ("heads", 32), ("rounds", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--attn", help="the built program; default: built now")
    parser.add_argument("--bench", help="the built benchmark; default: built now")
    a = parser.parse_args()
    os.chdir(HERE.parent)
    program = a.attn or built("build", "--release", "--bin", "attn")["attn"]
    bench = a.bench or built("bench", "--bench", "attention", "--no-run")["attention"]
    window = ["--window", str(WINDOW)]
    cases = [
        ("sound", "sound", True, []),
        ("scale 1/d for 1/sqrt(d)", "scale", True, ["--scale", "1/sqrt(dk)"]),
        ("window of 1025 keys for 1024", "window", True, window),
        ("no mask", "no mask", True, []),
        ("one weight off by 0.01", "one weight", True, []),
        ("sound, without weights", "sound", False, []),
        ("scale, without weights", "scale", False, ["--scale", "1/sqrt(dk)"]),
        ("window, without weights", "window", False, window),
    ]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        paths = {}
        for name, fault, with_weights, _ in cases:
            paths[name] = folder / f"{name.replace('/', '_')}.safetensors"
            write(paths[name], a.n, a.dk, 1, fault, with_weights)
        seconds, peaks, alarms, own, numpy_seconds = {}, {}, {}, [], []
        q, k, v = next(heads(a.n, a.dk, 1))
        for _ in range(a.rounds):
            own.append((kernel(bench, a.n, a.dk, 5) - kernel(bench, a.n, a.dk, 1)) / 4)
            started = time.process_time()
            for _ in attend(q, k, v, "sound"):
                pass
            numpy_seconds.append(time.process_time() - started)
            for name, _, _, options in cases:
                cost, peak, alarms[name] = audit(program, paths[name], ["--causal", *options])
                seconds.setdefault(name, []).append(cost)
                peaks[name] = max(peak, peaks.get(name, 0))
        yard = statistics.median(own)
        print(f"n = m = {a.n}, d = {a.dk}, f16, causal, one head; CPU seconds are medians of {a.rounds} rounds")
        print(f"recomputed: own kernel, f32, materialised {yard:.2f} s; NumPy, f32 {statistics.median(numpy_seconds):.2f} s")
        for name, *_ in cases:
            cost = statistics.median(seconds[name])
            print(f"{name}: {cost:.2f} s, {cost / yard:.1f} times the own kernel, {peaks[name]:.0f} MiB; {alarms[name]}")
        for path in paths.values():
            path.unlink()
        path = folder / "heads.safetensors"
        write(path, a.n, a.dk, a.heads, "sound", True)
        cost, peak, alarm = audit(program, path, ["--causal"])
        ratio = cost / a.heads / yard
        print(f"{a.heads} heads in one file, sound: {cost:.1f} s, {ratio:.1f} times the own kernel, {peak:.0f} MiB; {alarm}")


if __name__ == "__main__":
    main()
