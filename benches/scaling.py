#!/usr/bin/env python3
# /// script
# requires-python = ">=3.10"
# dependencies = ["matplotlib>=3.7"]
# ///
"""What a logit costs as n, d, the number of trials and that of threads grow.

    python3 benches/scaling.py -o data/recorded/scaling.csv --plot data/recorded/scaling.png [--rounds 5]

Runs `benches/trial.rs` (f32) at each point once a round, all points in turn; the figure is the median over the rounds.
"""
import argparse
import csv
import json
import os
import pathlib
import statistics
import subprocess

from cargo import built

HERE = pathlib.Path(__file__).resolve().parent
USUAL = {"n": 2048, "d_k": 64, "trials": 0, "threads": 2}
AXES = {
    "n": [64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384],
    "d_k": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512],
    "trials": [1, 2, 4, 8, 16, 32, 64, 128],
    "threads": [1, 2],
}
# Logits times d of a point, so that each takes about a tenth of a second.
WORK = 4e9


def points():
    for job in ("variance", "spikiness"):
        for axis, values in AXES.items():
            for value in values:
                point = {**USUAL, axis: value}
                wanted = WORK / (point["n"] ** 2 * (point["d_k"] + 30))
                # A whole number of sets of trials that run side by side.
                point["trials"] = point["trials"] or max(2, min(100_000, round(wanted / 2) * 2))
                yield job, axis, value, point


def measure(binary, job, point):
    """Nanoseconds a logit."""
    options = ["--job", job, "--n", point["n"], "--dk", point["d_k"], "--trials", point["trials"], "--threads", point["threads"]]
    done = subprocess.run([binary, *map(str, options)], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["median_ms"]["total"] * 1e6 / point["n"] ** 2


def draw(rows, path):
    import matplotlib.pyplot as plt

    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    figure, panels = plt.subplots(1, 4, figsize=(11, 3), width_ratios=[3, 3, 3, 1.2], constrained_layout=True)
    names = {"n": "tokens n = m", "d_k": "width d", "trials": "trials of a run", "threads": "threads"}
    for panel, axis in zip(panels, AXES):
        for job, style in (("variance", "o-"), ("spikiness", "s--")):
            chosen = [row for row in rows if (row["job"], row["axis"]) == (job, axis)]
            values = [int(row[axis]) for row in chosen]
            panel.plot(values, [float(row["nanoseconds_per_logit"]) for row in chosen], style, label=job, markersize=4)
        panel.set(xlabel=names[axis], xscale="log", yscale="log" if axis == "d_k" else "linear")
        ticks = AXES[axis][:: 2 if len(AXES[axis]) > 4 else 1]
        panel.set_xticks(ticks, map(str, ticks))
        panel.minorticks_off()
        if axis != "d_k":
            panel.set_ylim(bottom=0)
    # One factor times one logit costs what d = 64 costs, divided by 64.
    reference = [row for row in rows if (row["job"], row["axis"], int(row["d_k"])) == ("variance", "d_k", 512)]
    slope = float(reference[0]["nanoseconds_per_logit"]) / 512
    panels[1].plot(AXES["d_k"], [slope * d for d in AXES["d_k"]], ":", color="#666666", label="∝ d")
    panels[0].set_ylabel("ns a logit")
    panels[1].legend(frameon=False)
    figure.savefig(path, dpi=110)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--plot", help="a picture of it")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--draw-only", action="store_true", help="draw what the output holds already")
    a = parser.parse_args()
    os.chdir(HERE.parent)
    if not a.draw_only:
        binary, times = built("bench", "--bench", "trial", "--no-run")["trial"], {}
        for _ in range(a.rounds):
            for index, (job, _, _, point) in enumerate(points()):
                times.setdefault(index, []).append(measure(binary, job, point))
        with open(a.output, "w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["job", "axis", "n", "d_k", "trials", "threads", "rounds", "nanoseconds_per_logit", "low", "high"])
            for index, (job, axis, _, point) in enumerate(points()):
                found = times[index]
                figures = [f"{figure:.4g}" for figure in (statistics.median(found), min(found), max(found))]
                writer.writerow([job, axis, *(point[name] for name in USUAL), a.rounds, *figures])
    if a.plot:
        with open(a.output, newline="") as file:
            draw(list(csv.DictReader(file)), a.plot)


if __name__ == "__main__":
    main()
