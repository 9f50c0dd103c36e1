# /// script
# requires-python = ">=3.9"
# dependencies = ["matplotlib>=3.7", "pandas>=2.0"]
# ///
"""Draws the claims of a suite (attn check): p-values by item.

    attn check -o check.csv
    uv run scripts/plot/suite.py check.csv -o check.png
"""

import matplotlib.pyplot as plt

import tables

COLUMNS = ["item", "claim", "verdict", "p_value"]
# What is smaller is drawn here.
SMALLEST = 1e-12


def draw(table):
    """One line an item, a mark for each claim at its p-value; without one (a count, an audit) at 1."""
    items = list(table.item.unique())
    figure, axes = plt.subplots(figsize=(8, 1.6 + 0.28 * len(items)))
    p = table.p_value.fillna(1.0).clip(lower=SMALLEST).to_numpy()
    places = table.item.map(items.index).to_numpy()
    # Side by side: many claims of an item have much the same p-value.
    aside = 0.5 * ((table.groupby("item").cumcount() % 7).to_numpy() / 6 - 0.5)
    tables.verdict_points(axes, p, places + aside, table.verdict)
    axes.set_xscale("log")
    axes.invert_xaxis()
    axes.set_yticks(range(len(items)), items)
    axes.set_ylim(len(items) - 0.4, -0.6)
    axes.grid(axis="x", color="#DEDEDE")
    axes.set(xlabel=f"p-value before correction (1 where there is none, at least {SMALLEST:g})", title="Claims of the suite by item")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    return figure


if __name__ == "__main__":
    tables.main(draw, COLUMNS, __doc__.splitlines()[0])
