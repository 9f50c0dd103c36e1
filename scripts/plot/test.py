"""Tests of the plotting scripts on the recorded tables: each picture exists, and holds as many points as its table has rows for it.

    python3 scripts/plot/test.py        needs pandas and matplotlib; scripts/plot/test makes an environment with them
"""

import re
import runpy
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

HERE = Path(__file__).resolve().parent
RECORDED = HERE.parents[1] / "data" / "recorded"
sys.path.insert(0, str(HERE))

import audit
import claims
import complexity
import matplotlib.pyplot as plt
import pandas as pd
import per_trial
import probe
import suite

SCRIPTS = {
    "claims": (claims, "plot_sweep"),
    "suite": (suite, "plot_check"),
    "audit": (audit, "plot_audit"),
    "probe": (probe, "plot_probe"),
    "complexity": (complexity, "plot_complexity"),
    "per_trial": (per_trial, "plot_trials"),
}


def table(name, **options):
    return pd.read_csv(RECORDED / f"{name}.csv", **options)


def points(figure):
    """Points of every scatter, by its name in the legend."""
    found = [mark for axes in figure.axes for mark in axes.collections if hasattr(mark, "get_offsets")]
    return {mark.get_label(): len(mark.get_offsets()) for mark in found if not mark.get_label().startswith("_")}


class Points(unittest.TestCase):
    def tearDown(self):
        plt.close("all")

    def test_every_claim_of_a_sweep_is_a_point_of_its_verdict(self):
        rows = table("plot_sweep")
        judged = rows[rows.deviation.notna() & (rows.min_detectable > 0)]
        self.assertEqual(points(claims.draw(rows)), judged.verdict.value_counts().to_dict())

    def test_one_statistic_is_drawn_against_d_k_beside_theory(self):
        rows = table("plot_sweep")
        axes = claims.draw(rows, statistic="logit_variance").axes[0]
        self.assertEqual((axes.get_xscale(), axes.get_yscale()), ("log", "log"))
        unscaled = rows[(rows.statistic == "logit_variance") & (rows.scale == "none")].sort_values("d_k")
        self.assertEqual(list(axes.containers[0].lines[0].get_ydata()), list(unscaled.estimate))
        lines = {line.get_label(): line for line in axes.get_lines()}
        self.assertEqual(list(lines["none, theory"].get_ydata()), list(unscaled.theory))
        # Var[QKᵀ] = d(1 + 2µ²) with the recorded mean µ = 0.02, less the share of the sample's own mean.
        self.assertTrue(((unscaled.theory / unscaled.d_k - 1).abs() < 2 * 0.02**2).all())

    def test_every_claim_of_a_suite_is_a_point(self):
        rows = table("plot_check")
        self.assertEqual(points(suite.draw(rows)), rows.verdict.value_counts().to_dict())
        self.assertEqual(len(suite.draw(rows).axes[0].get_yticklabels()), rows.item.nunique())

    def test_every_head_has_a_verdict_of_every_check(self):
        rows = table("plot_audit", dtype={"head": str, "batch": str})
        found = points(audit.draw(rows))
        # 12 heads in each of 6 groups; what is found in one head alone is a warning.
        by_head = audit.by_head(rows)
        self.assertEqual(by_head.groupby("group")["head"].nunique().to_dict(), {name: 12 for name in rows.group.unique()})
        warned = rows[rows.verdict == "WARN"]["head"].str.split().str.len().sum()
        self.assertEqual(found["WARN"], warned)
        self.assertEqual(sum(found.values()), len(by_head))

    def test_every_case_of_a_probe_is_a_point_of_its_verdict(self):
        rows = table("plot_probe")
        self.assertEqual(points(probe.draw(rows)), rows.dropna(subset=["case"]).verdict.value_counts().to_dict())

    def test_every_time_is_a_point_on_logarithmic_axes(self):
        rows = table("plot_complexity")
        axes = complexity.draw(rows).axes[0]
        timed = rows[rows.seconds.notna() & (rows.d_k == rows.d_k.max()) & (rows.stage != "cached_token")]
        self.assertEqual(sum(len(container.lines[0].get_xdata()) for container in axes.containers), len(timed))
        self.assertEqual((axes.get_xscale(), axes.get_yscale()), ("log", "log"))

    def test_a_histogram_holds_every_trial(self):
        rows = table("plot_trials")
        for axes in per_trial.draw(rows, statistic="logit_variance").axes:
            if axes.axison:
                self.assertEqual(sum(bar.get_height() for bar in axes.patches), len(rows))


class QuickStart(unittest.TestCase):
    def test_the_five_lines_of_the_documentation_print_what_stands_below_them(self):
        text = (RECORDED.parents[1] / "docs" / "plotting.md").read_text()
        code, printed = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", text, re.DOTALL).groups()
        self.assertEqual(code.count("\n"), 5)
        run = subprocess.run([sys.executable, "-c", code], cwd=RECORDED.parents[1], capture_output=True, text=True)
        self.assertEqual((run.stdout.split(), run.stderr), (printed.split(), ""))


class CommandLine(unittest.TestCase):
    def run_script(self, name, *arguments):
        command = [sys.executable, str(HERE / f"{name}.py"), *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True)

    def test_each_script_reads_a_file_or_standard_input_and_writes_a_picture(self):
        with tempfile.TemporaryDirectory() as folder:
            for index, (name, (_, recorded)) in enumerate(SCRIPTS.items()):
                with self.subTest(name), open(RECORDED / f"{recorded}.csv") as csv:
                    picture = Path(folder) / f"{name}.{'svg' if index % 2 else 'png'}"
                    source = [] if index % 2 else [csv.name]
                    arguments = [f"{name}.py", *source, "-o", str(picture)]
                    # In this process: matplotlib takes a second to load.
                    with mock.patch.object(sys, "argv", arguments), mock.patch.object(sys, "stdin", csv):
                        runpy.run_path(str(HERE / f"{name}.py"), run_name="__main__")
                    start = picture.read_bytes()[:300]
                    self.assertTrue(start.startswith(b"\x89PNG") or b"<?xml" in start)
                    if index % 2:
                        self.assertIn("<text", picture.read_text())

    def test_a_table_of_another_subcommand_is_one_line_of_error(self):
        run = self.run_script("probe", RECORDED / "plot_sweep.csv", "-o", "never.png")
        self.assertEqual(run.returncode, 1)
        self.assertIn("no column capability, case", run.stderr)
        self.assertEqual(run.stderr.count("\n"), 1)

    def test_the_metadata_of_each_script_names_what_it_imports(self):
        # PEP 723: what `uv run` and `pipx run` install.
        for name in SCRIPTS:
            head = (HERE / f"{name}.py").read_text().split("# ///\n")
            self.assertEqual(head[0], "# /// script\n" + head[0].split("# /// script\n")[1], name)
            self.assertIn('# dependencies = ["matplotlib>=', head[0], name)
            self.assertIn('"pandas>=', head[0], name)


if __name__ == "__main__":
    unittest.main()
