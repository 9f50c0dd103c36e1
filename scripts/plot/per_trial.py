# /// script
# requires-python = ">=3.9"
# dependencies = ["matplotlib>=3.7", "pandas>=2.0"]
# ///
"""Draws how statistics scatter over the trials of a run (--per-trial).

    attn variance --dk 64 --per-trial trials.csv
    uv run scripts/plot/per_trial.py trials.csv -o trials.png
"""

import sys

import matplotlib.pyplot as plt

import tables

# Between them stand the statistics.
COLUMNS = ["trial", "inputs"]
# Panels that fit one page.
MOST = 12


def draw(table, statistic=None):
    """A histogram for each column of statistics, at most twelve, with the mean over the trials."""
    columns = list(table.columns)
    statistics = columns[columns.index("trial") + 1 : columns.index("inputs")]
    names = [name for name in statistics if table[name].nunique() > 1]
    if statistic:
        names = [name for name in names if name.split(":")[0] == statistic]
    if not names:
        sys.exit("no column of statistics that vary" + (f" is called {statistic}" if statistic else ""))
    names = names[:MOST]
    lines = -(-len(names) // 3)
    figure, axes = plt.subplots(lines, min(3, len(names)), figsize=(10, 2.6 * lines), squeeze=False)
    for place, name in zip(axes.flat, names):
        values = table[name].dropna()
        place.hist(values, bins="auto", color="#0072B2", edgecolor="white")
        place.axvline(values.mean(), color="#D55E00", linestyle="--", label=f"mean {values.mean():.4g}")
        place.set(title=name)
        place.title.set_fontsize(9)
        place.legend(fontsize=8)
    for place in axes.flat[len(names):]:
        place.set_axis_off()
    figure.supylabel("trials")
    figure.tight_layout()
    return figure


if __name__ == "__main__":
    tables.main(draw, COLUMNS, __doc__.splitlines()[0], options=[("--statistic", {"help": "only the columns of this one"})])
