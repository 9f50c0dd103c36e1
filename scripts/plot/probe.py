# /// script
# requires-python = ">=3.9"
# dependencies = ["matplotlib>=3.7", "pandas>=2.0"]
# ///
"""Draws the judgement of a probe: the error of every answer against its bound.

    attn probe run --adapter torch -o probe.csv
    uv run scripts/plot/probe.py probe.csv -o probe.png
"""

import matplotlib.pyplot as plt

import tables

COLUMNS = ["capability", "case", "verdict", "ratio", "multiple"]
# Errors smaller than this share of the bound are drawn there.
SMALLEST = 1e-4


def draw(table):
    """One line a capability, a mark for each case at its ratio; without a ratio (unsupported, failed) at the right edge."""
    cases = table.dropna(subset=["case"])
    capabilities = list(table.capability.unique())
    bound = cases.multiple.dropna().iloc[0] if cases.multiple.notna().any() else 1.0
    far = 10 * max(bound, cases.ratio.max() if cases.ratio.notna().any() else 0)
    figure, axes = plt.subplots(figsize=(8, 1.6 + 0.25 * len(capabilities)))
    x = cases.ratio.clip(lower=SMALLEST * bound).fillna(far).to_numpy()
    tables.verdict_points(axes, x, cases.capability.map(capabilities.index).to_numpy(), cases.verdict)
    axes.set_xscale("log")
    axes.axvspan(axes.get_xlim()[0], bound, color="#E2F0FA", zorder=0)
    axes.axvline(bound, color="#666666", linewidth=1)
    if cases.ratio.isna().any():
        axes.text(far, -0.9, "no number", ha="center", fontsize=8)
    axes.set_yticks(range(len(capabilities)), capabilities)
    axes.set_ylim(len(capabilities) - 0.4, -0.6)
    axes.set(xlabel=f"error ÷ that of the definition in the same type; up to {bound:g} is right")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    return figure


if __name__ == "__main__":
    tables.main(draw, COLUMNS, __doc__.splitlines()[0])
