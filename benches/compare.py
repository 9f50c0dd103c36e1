#!/usr/bin/env python3
# /// script
# requires-python = ">=3.10"
# dependencies = ["jax", "numpy", "torch"]
# ///
"""Times `attn` in turn with NumPy, PyTorch and JAX doing the same job.

    python3 benches/compare.py -o data/recorded/benchmark.csv [--rounds 5] [--threads 2] [--only JOB[:N] …]

Every round runs each program once, after a moment in which nothing else ran; a figure is the median over the rounds, a ratio is peer / attn
taken round by round. Times of `attn` are the mean over the trials of one run; those of the peers are the median over the trials of one
process, sampling included on both sides.

Footing `inside`: one process, whose threads share the work as the program likes. Footing `beside`: of each peer as many processes with one
thread as there are threads, each on a processor of its own, the time of a trial divided by their number; `attn` runs whole trials side by
side by itself. Job `process` is the wall time of a whole command that does 100 trials, start and end included.
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
import time

from cargo import built

HERE = pathlib.Path(__file__).resolve().parent
EAGER = ["numpy slabs", "numpy plain", "torch slabs", "torch plain"]
COMPILED = ["torch compile", "jax blocks"]
STRONG = ["numpy slabs", "torch slabs", *COMPILED]
ATTENTION = ["numpy slabs", "torch sdpa"]

# (job, type, d, n, footing, trials of attn, trials of a peer, peers)
CASES = [
    ("variance", "f32", 64, 256, "beside", 16000, 800, STRONG),
    ("variance", "f32", 64, 1024, "beside", 1500, 120, STRONG),
    ("spikiness", "f32", 64, 256, "beside", 10000, 600, STRONG),
    ("spikiness", "f32", 64, 1024, "beside", 1000, 80, STRONG),
    ("variance", "f32", 64, 512, "inside", 1500, 60, EAGER + COMPILED),
    ("spikiness", "f32", 64, 512, "inside", 600, 40, EAGER + COMPILED),
    ("variance", "f32", 1, 2048, "inside", 200, 12, EAGER + COMPILED),
    ("variance", "f32", 512, 512, "inside", 300, 30, EAGER + COMPILED),
    ("variance", "f32", 64, 4096, "inside", 40, 7, EAGER + COMPILED),
    ("spikiness", "f32", 64, 4096, "inside", 30, 5, EAGER + COMPILED),
    ("variance", "f64", 64, 4096, "inside", 20, 5, EAGER + COMPILED),
    ("spikiness", "f64", 64, 4096, "inside", 12, 5, EAGER + COMPILED),
    ("variance", "f32", 64, 16384, "inside", 4, 3, STRONG),
    ("spikiness", "f32", 64, 16384, "inside", 4, 3, COMPILED),
    ("attention", "f32", 64, 4096, "inside", 9, 9, ATTENTION),
    ("attention", "f32", 64, 16384, "inside", 3, 3, ATTENTION),
    ("moments", "f32", 64, 16384, "inside", 400, 20, ["numpy algebra", *COMPILED]),
    ("process", "f32", 64, 512, "inside", 100, 100, ["numpy slabs", "torch slabs"]),
    # What memory grows like; no peer holds 2³² logits.
    ("variance", "f32", 64, 65536, "inside", 2, 0, []),
    ("spikiness", "f32", 64, 65536, "inside", 2, 0, []),
    ("variance", "f64", 64, 65536, "inside", 2, 0, []),
    ("spikiness", "f64", 64, 65536, "inside", 2, 0, []),
    ("attention", "f32", 64, 65536, "inside", 1, 0, []),
]


def processor_seconds():
    """What all processors have spent working since the start of the machine; 0 where the system does not tell."""
    try:
        fields = pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    except OSError:
        return 0.0
    idle = int(fields[3]) + int(fields[4])
    return (sum(map(int, fields[:8])) - idle) / os.sysconf("SC_CLK_TCK")


def wait_until_calm(patience):
    """Half a second in which other programs take less than a twentieth of a processor; after `patience` seconds, no matter."""
    for _ in range(2 * patience):
        before = processor_seconds()
        time.sleep(0.5)
        if processor_seconds() - before < 0.025:
            return


def start(command, processors=None):
    """A process that was given some processors, and when it started."""
    started = time.perf_counter()
    pin = None if processors is None else lambda: os.sched_setaffinity(0, processors)
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=pin), started


def finish(process, started):
    """The JSON that the process ends with, and its wall time and peak memory."""
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    # 3: a claim that few trials cannot settle, which is no fault of a run made for its time.
    if process.returncode not in (0, 3):
        raise SystemExit(f"{process.args}: exit code {process.returncode}")
    lines = [line for line in output.splitlines() if line.startswith("{")]
    found = json.loads(lines[-1]) if lines else {}
    found["wall_ms"] = (time.perf_counter() - started) * 1e3
    found.setdefault("peak_mib", round(usage.ru_maxrss / 1024, 1))
    return found


def total(found):
    """Milliseconds a trial; of attention, sampling and attending."""
    times = found["median_ms"]
    return times.get("total", times.get("sample", 0) + times.get("attention", 0))


class Programs:
    """How each program is called."""

    def __init__(self, threads):
        self.threads = threads
        self.benches = built("bench", "--bench", "trial", "--bench", "attention", "--no-run")
        self.attn = built("build", "--release", "--bin", "attn")["attn"]

    def measure_own(self, job, dtype, d, n, trials):
        if job == "process":
            shape = ["--queries", str(n), "--dk", str(d), "--precision", dtype, "--threads", str(self.threads)]
            found = finish(*start([self.attn, "variance", *shape, "--trials", str(trials), "--quiet"]))
            version = subprocess.run([self.attn, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
            return found["wall_ms"], found["peak_mib"], version
        bench = self.benches["attention" if job == "attention" else "trial"]
        shape = ["--n", str(n), "--dk", str(d), "--dtype", dtype, "--threads", str(self.threads), "--trials", str(trials)]
        found = finish(*start([bench, *shape, *([] if job == "attention" else ["--job", job])]))
        return total(found), found["peak_mib"], found["version"]

    def measure_peer(self, peer, job, dtype, d, n, trials, footing):
        program, method = peer.split()
        # Of the moments alone, and of a whole process, a peer does what it does for the variance.
        script = {"moments": "variance", "process": "variance"}.get(job, job)
        command = [sys.executable, f"{HERE}/peers/{program}_{script}.py", "--n", str(n), "--dk", str(d), "--dtype", dtype, "--trials", str(trials), "--method", method]
        if footing == "inside":
            found = [finish(*start([*command, "--threads", str(self.threads)]))]
        else:
            started = [start([*command, "--threads", "1"], {processor}) for processor in sorted(os.sched_getaffinity(0))[: self.threads]]
            found = [finish(*process) for process in started]
        milliseconds = found[0]["wall_ms"] if job == "process" else statistics.mean(map(total, found)) / len(found)
        return milliseconds, sum(one["peak_mib"] for one in found), found[0]["version"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", nargs="*", default=[], help="jobs, or jobs and sizes: variance:4096")
    parser.add_argument("--patience", type=int, default=60, help="seconds to wait for a calm moment before each run")
    arguments = parser.parse_args()
    os.chdir(HERE.parent)
    programs = Programs(arguments.threads)
    rows = []
    for job, dtype, d, n, footing, own_trials, peer_trials, peers in CASES:
        if arguments.only and not {job, f"{job}:{n}"} & set(arguments.only):
            continue
        rounds = arguments.rounds if peers else 1
        found = {}
        for _ in range(rounds):
            wait_until_calm(arguments.patience)
            found.setdefault("attn fused", []).append(programs.measure_own(job, dtype, d, n, own_trials))
            for peer in peers:
                wait_until_calm(arguments.patience)
                found.setdefault(peer, []).append(programs.measure_peer(peer, job, dtype, d, n, peer_trials, footing))
        own = [milliseconds for milliseconds, *_ in found["attn fused"]]
        for peer, measured in found.items():
            milliseconds = [one for one, *_ in measured]
            ratios = [theirs / mine for theirs, mine in zip(milliseconds, own)]
            program, method = peer.split()
            rows.append({
                "job": job, "program": program, "method": method, "program_version": measured[0][2],
                "d_k": d, "n": n, "dtype": dtype, "threads": arguments.threads, "footing": footing,
                "rounds": rounds, "milliseconds": f"{statistics.median(milliseconds):.4g}",
                "trials_per_second": f"{(own_trials if job == 'process' else 1) * 1e3 / statistics.median(milliseconds):.4g}",
                "ratio": f"{statistics.median(ratios):.3g}", "ratio_low": f"{min(ratios):.3g}", "ratio_high": f"{max(ratios):.3g}",
                "peak_mebibytes": round(max(peak for _, peak, _ in measured), 1)})
            print(rows[-1], file=sys.stderr, flush=True)
    with open(arguments.output, "w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=rows[0])
        writer.writeheader()
        writer.writerows(rows)
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}", file=sys.stderr)


if __name__ == "__main__":
    main()
