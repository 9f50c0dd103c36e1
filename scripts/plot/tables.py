"""What the plotting scripts share: reading a table, writing a picture, and the look of a verdict."""

import argparse
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import pandas as pd

# Okabe and Ito 2008, "Color Universal Design"; forms differ as well, for print in grey.
STYLES = {
    "good": {"color": "#009E73", "marker": "o"},
    "bad": {"color": "#D55E00", "marker": "D"},
    "open": {"color": "#E69F00", "marker": "^"},
    "lost": {"color": "#CC79A7", "marker": "X"},
    "noted": {"color": "#0072B2", "marker": "s"},
}
STANDING = {
    "upheld": "good", "right": "good", "PASS": "good",
    "rejected": "bad", "wrong": "bad", "FAIL": "bad",
    "undecided": "open", "nondeterministic": "open", "WARN": "open",
    "error": "lost", "failed": "lost",
    "measured": "noted", "noted": "noted", "unsupported": "noted", "CANNOT TELL": "noted",
}
SERIES = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"]
MARKERS = "os^Dv*"
DASHES = ["-", "--", ":", "-.", (0, (9, 3)), (0, (5, 2, 1, 2, 1, 2))]


def series(index):
    """Colour, form and dash of series number `index`."""
    index %= len(SERIES)
    return SERIES[index], MARKERS[index], DASHES[index]


def style(verdict):
    """Colour and form of a verdict of any subcommand."""
    return STYLES[STANDING.get(verdict, "noted")]


def read(source, columns, text=()):
    """The table in a CSV file, or on standard input for "-"; ends the program where `columns` are missing."""
    try:
        # `text` are columns whose numbers are names, such as the heads "0 1 2".
        table = pd.read_csv(sys.stdin if source == "-" else source, dtype={name: str for name in text})
    except (OSError, ValueError) as error:
        sys.exit(f"{source}: {error}")
    missing = [name for name in columns if name not in table.columns]
    if missing:
        sys.exit(f"{source}: no column {', '.join(missing)}; is it a table of another subcommand?")
    return table


def verdict_points(axes, x, y, verdicts):
    """Points by verdict, each verdict one entry of the legend."""
    for verdict in sorted(verdicts.unique(), key=lambda name: list(STANDING).index(name)):
        chosen = verdicts == verdict
        axes.scatter(x[chosen], y[chosen], s=36, label=verdict, zorder=3, **style(verdict))


def main(draw, columns, description, text=(), options=()):
    """The command line: CSV in, picture out. `options` are names and keyword arguments of further ones, given to `draw`."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("csv", nargs="?", default="-", help="a CSV file of attn; - is standard input [default: -]")
    parser.add_argument("-o", "--output", required=True, help="the picture: .png, .svg or .pdf")
    for name, keywords in options:
        parser.add_argument(name, **keywords)
    typed = vars(parser.parse_args())
    source, output = typed.pop("csv"), typed.pop("output")
    figure = draw(read(source, columns, text), **typed)
    try:
        # Text of an SVG stays text.
        with plt.rc_context({"svg.fonttype": "none"}):
            figure.savefig(output, dpi=150, bbox_inches="tight")
    except (OSError, ValueError) as error:
        sys.exit(f"{output}: {error}")
