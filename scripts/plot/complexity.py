# /// script
# requires-python = ">=3.9"
# dependencies = ["matplotlib>=3.7", "pandas>=2.0"]
# ///
"""Draws the times of attn complexity against n, with the counted operations as the slope to expect.

    attn complexity -o cost.csv
    uv run scripts/plot/complexity.py cost.csv -o cost.png
"""

import sys

import matplotlib.pyplot as plt

import tables

COLUMNS = ["stage", "kernel", "n", "d_k", "operations", "seconds", "seconds_low", "seconds_high"]


def draw(table):
    """Seconds of each stage against n at the largest d_k; dashed, its operations at the rate of the largest n."""
    timed = table.dropna(subset=["seconds", "n"])
    timed = timed[(timed.d_k == timed.d_k.max()) & (timed.stage != "cached_token")]
    if timed.n.nunique() < 2:
        sys.exit("times of two sizes n or more are needed")
    figure, axes = plt.subplots(figsize=(8, 5))
    for index, ((stage, kernel), rows) in enumerate(timed.fillna({"kernel": ""}).groupby(["stage", "kernel"], sort=False)):
        colour, marker, dash = tables.series(index)
        rows = rows.sort_values("n")
        ends = [rows.seconds - rows.seconds_low, rows.seconds_high - rows.seconds]
        name = f"{stage}, {kernel}" if kernel and stage == "total" else stage
        axes.errorbar(rows.n, rows.seconds, yerr=ends, fmt=marker, color=colour, capsize=3, label=name)
        if rows.operations.notna().all():
            rate = rows.operations.iloc[-1] / rows.seconds.iloc[-1]
            axes.plot(rows.n, rows.operations / rate, linestyle=dash, color=colour, linewidth=1)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:.0f}")
    axes.set_yscale("log")
    axes.grid(color="#DEDEDE")
    axes.set(xlabel="n, queries", ylabel="seconds", title=f"Time by stage at d_k = {timed.d_k.max():.0f}; lines: operations")
    axes.legend()
    return figure


if __name__ == "__main__":
    tables.main(draw, COLUMNS, __doc__.splitlines()[0])
