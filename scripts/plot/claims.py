# /// script
# requires-python = ">=3.9"
# dependencies = ["matplotlib>=3.7", "pandas>=2.0"]
# ///
"""Draws the rows of a simulation: variance, softmax-spikiness, mask, multi-head, positional, kv-cache, depth.

    attn variance --dk 16..1024 -o sweep.csv
    uv run scripts/plot/claims.py sweep.csv -o sweep.png                              every claim
    uv run scripts/plot/claims.py sweep.csv -o sweep.png --statistic logit_variance   one against d_k, with theory
"""

import sys

import matplotlib.pyplot as plt
import numpy as np

import tables

COLUMNS = ["statistic", "scale", "d_k", "estimate", "ci_low", "ci_high", "theory", "deviation", "min_detectable", "verdict"]


def against_width(table, statistic):
    """Estimate and theory of one statistic against d_k, both axes logarithmic where all is positive."""
    rows = table[table.statistic == statistic]
    if rows.empty:
        sys.exit(f"--statistic {statistic}: must be one of {', '.join(table.statistic.unique())}")
    figure, axes = plt.subplots(figsize=(8, 5))
    for index, (scale, of_scale) in enumerate(rows.fillna({"scale": "measured"}).groupby("scale", sort=False)):
        colour, marker, dash = tables.series(index)
        of_scale = of_scale.sort_values("d_k")
        ends = [of_scale.estimate - of_scale.ci_low, of_scale.ci_high - of_scale.estimate]
        axes.errorbar(of_scale.d_k, of_scale.estimate, yerr=ends, fmt=marker, color=colour, capsize=3, label=f"{scale}, 95 %")
        axes.plot(of_scale.d_k, of_scale.theory, linestyle=dash, color=colour, label=f"{scale}, theory")
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:.0f}")
    if (rows[["estimate", "theory"]].dropna() > 0).all(axis=None):
        axes.set_yscale("log")
    axes.set(xlabel="d_k, columns of Q and K", ylabel=statistic, title=f"{statistic} against d_k")
    axes.legend()
    axes.grid(color="#DEDEDE")
    return figure


def draw(table, statistic=None):
    """Deviation of every claim in units of the smallest that the run would have seen."""
    if statistic:
        return against_width(table, statistic)
    claims = table.dropna(subset=["deviation", "min_detectable"])
    claims = claims[claims.min_detectable > 0]
    if claims.empty:
        sys.exit("no row has a deviation and a smallest detectable one")
    several = claims.d_k.nunique() > 1
    labels = [
        ", ".join([row.statistic] + ([row.scale] if isinstance(row.scale, str) else []) + ([f"d_k = {row.d_k:.0f}"] if several and row.d_k > 0 else []))
        for row in claims.itertuples()
    ]
    figure, axes = plt.subplots(figsize=(8, 1.6 + 0.22 * len(claims)))
    # Further away than four is far away.
    x = (claims.deviation / claims.min_detectable).clip(-4, 4).to_numpy()
    tables.verdict_points(axes, x, np.arange(len(claims)), claims.verdict)
    axes.axvspan(-1, 1, color="#E2F0FA", zorder=0)
    axes.axvline(0, color="#666666", linewidth=1)
    axes.set_yticks(range(len(claims)), labels)
    axes.invert_yaxis()
    axes.set(xlabel="deviation ÷ smallest detectable deviation", title="Deviation from theory, claim by claim")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    return figure


if __name__ == "__main__":
    tables.main(draw, COLUMNS, __doc__.splitlines()[0], options=[("--statistic", {"help": "only this one, against d_k"})])
