# /// script
# requires-python = ">=3.9"
# dependencies = ["matplotlib>=3.7", "pandas>=2.0"]
# ///
"""Draws the findings of an audit: which check says what of which head.

    attn audit dump.safetensors -o audit.csv
    uv run scripts/plot/audit.py audit.csv -o audit.png
"""

import matplotlib.pyplot as plt
import pandas as pd

import tables

COLUMNS = ["file", "group", "head", "check", "verdict"]
ORDER = ["PASS", "CANNOT TELL", "WARN", "FAIL"]


def by_head(table):
    """One row for each check and head, with the worst verdict; "head" is a list such as "0 1 2", empty for all."""
    table = table.fillna({"group": "", "head": ""})
    rows = table.assign(head=table["head"].str.split()).explode("head")
    own = rows.dropna(subset=["head"])[["group", "head"]].drop_duplicates()
    everywhere = rows[rows["head"].isna()].drop(columns="head").merge(own, on="group", how="left")
    rows = pd.concat([rows.dropna(subset=["head"]), everywhere.fillna({"head": "0"})])
    rows = rows.assign(rank=rows.verdict.map(ORDER.index), head=rows["head"].astype(int))
    return rows.sort_values("rank").drop_duplicates(["group", "head", "check"], keep="last").sort_values(["group", "head"])


def draw(table):
    """A line a check, a column a head, the form of the mark its verdict."""
    rows = by_head(table)
    columns = rows[["group", "head"]].drop_duplicates().reset_index(drop=True)
    rows = rows.merge(columns.assign(column=columns.index), on=["group", "head"])
    checks = list(table.check.unique())
    figure, axes = plt.subplots(figsize=(max(5.0, min(16.0, 2.5 + 0.2 * len(columns))), 1.8 + 0.26 * len(checks)))
    tables.verdict_points(axes, rows.column.to_numpy(), rows.check.map(checks.index).to_numpy(), rows.verdict)
    for start, group in columns[~columns.group.duplicated()].group.items():
        axes.axvline(start - 0.5, color="#666666", linewidth=0.8)
        axes.text(start - 0.3, len(checks) - 0.4, group, rotation=-25, va="top", fontsize=8)
    step = len(columns) // 40 + 1
    axes.xaxis.tick_top()
    axes.set_xticks(range(0, len(columns), step), columns["head"][::step])
    axes.set_yticks(range(len(checks)), checks)
    axes.set_ylim(len(checks) - 0.5, -0.5)
    axes.xaxis.set_label_position("top")
    axes.set(xlabel="head")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    return figure


if __name__ == "__main__":
    tables.main(draw, COLUMNS, __doc__.splitlines()[0], text=["head", "batch"])
