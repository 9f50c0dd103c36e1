#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["numpy", "torch", "jax", "flax", "keras", "tinygrad", "onnx", "onnxruntime", "transformers", "mlx[cpu]"]
# ///
"""Runs `attn probe` on every library that scripts/adapters knows: data/probe_matrix.csv, a row for each library and capability.

    python3 scripts/probe_matrix.py [--attn target/release/attn] [--work DIR] [--candle PROGRAM] [--only NAME...]

A library that is not installed is left out, and said. With --work the answers are kept, and those that are there are not asked for
again. --candle is the built scripts/adapters/candle; without it candle is left out. tinygrad's bf16 needs clang 17 or newer (CC).
"""
import argparse
import collections
import csv
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
ADAPTERS = ROOT / "scripts" / "adapters"
# Column of the matrix, module that must be there, adapter and its words, environment.
PEERS = [
    ("numpy", "numpy", ["numpy"], {}),
    ("torch", "torch", ["torch"], {}),
    ("torch math", "torch", ["torch", "--backend", "math"], {}),
    ("torch flash", "torch", ["torch", "--backend", "flash"], {}),
    ("torch flex", "torch", ["torch_flex"], {}),
    ("torch MHA", "torch", ["torch_mha"], {}),
    ("torch MHA fused", "torch", ["torch_mha", "--fast"], {}),
    ("transformers eager", "transformers", ["transformers"], {}),
    ("transformers sdpa", "transformers", ["transformers", "--sdpa"], {}),
    ("jax", "jax", ["jax"], {}),
    ("flax", "flax", ["flax"], {}),
    ("keras jax", "keras", ["keras"], {"KERAS_BACKEND": "jax"}),
    ("keras torch", "keras", ["keras"], {"KERAS_BACKEND": "torch"}),
    ("onnx", "onnx", ["onnxruntime", "--reference"], {}),
    ("onnxruntime", "onnxruntime", ["onnxruntime"], {}),
    ("tinygrad", "tinygrad", ["tinygrad"], {}),
    ("mlx", "mlx.core", ["mlx"], {}),
    ("candle", None, ["--kernel", "single"], {}),
    ("candle varlen", None, ["--kernel", "varlen"], {}),
    ("candle unfused", None, ["--kernel", "unfused"], {}),
]
VERDICTS = ["right", "wrong", "failed", "nondeterministic", "unsupported"]
COLUMNS = ["library", "implementation", "library_version", "notes", "capability", "verdict", "cases", *VERDICTS, "largest_ratio",
           "causes", "explanation", "attn_version"]


def installed(module, environment):
    return subprocess.run([sys.executable, "-c", f"import {module}"], capture_output=True, env=os.environ | environment).returncode == 0


def judged(attn, folder, command, environment):
    """The rows of the judgement; the answers are in folder/out."""
    report = folder / "judgement.csv"
    done = subprocess.run([attn, "probe", "run", str(folder), "--resume", "--timeout", "300", "--quiet", "-o", str(report),
                           "--", *command, "{cases}", "{outputs}"], env=os.environ | environment)
    if done.returncode not in (0, 1):
        sys.exit(f"probe_matrix.py: attn probe run ended with {done.returncode}")
    with open(report, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def rows(library, about, judgement):
    """One row for each capability."""
    for whole in (row for row in judgement if not row["case"]):
        cases = [row for row in judgement if row["case"] and row["capability"] == whole["capability"]]
        count = collections.Counter(row["verdict"] for row in cases)
        ratios = [float(row["ratio"]) for row in cases if row["ratio"] and row["verdict"] != "unsupported"]
        causes = dict.fromkeys(row["cause"] for row in cases if row["cause"])
        # Where the case says it best: of those that went wrong the first, else why it is not supported.
        told = next((row["explanation"] for row in cases if row["verdict"] not in ("right", "unsupported")), None)
        told = told or next((row["explanation"] for row in cases if row["verdict"] == "unsupported"), "")
        yield {"library": library, "implementation": about["implementation"], "library_version": about["version"],
               "notes": about.get("notes", ""), "capability": whole["capability"], "verdict": whole["verdict"], "cases": len(cases),
               **{verdict: count[verdict] for verdict in VERDICTS}, "largest_ratio": f"{max(ratios):.3g}" if ratios else "",
               "causes": " ".join(causes), "explanation": told, "attn_version": whole["version"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--attn", default=str(ROOT / "target" / "release" / "attn"), help="the program")
    parser.add_argument("--work", type=pathlib.Path, help="keep cases and answers here")
    parser.add_argument("--candle", help="the built candle-adapter")
    parser.add_argument("--only", nargs="+", choices=[peer[0] for peer in PEERS], help="only these; the rows of others stay")
    parser.add_argument("-o", "--output", type=pathlib.Path, default=ROOT / "data" / "probe_matrix.csv")
    parsed = parser.parse_args()
    work = parsed.work or pathlib.Path(tempfile.mkdtemp(prefix="probe-matrix-"))
    known = []
    if parsed.only and parsed.output.exists():
        with open(parsed.output, newline="", encoding="utf-8") as file:
            known = list(csv.DictReader(file))
    made = []
    for library, module, words, environment in PEERS:
        if parsed.only and library not in parsed.only:
            made += [row for row in known if row["library"] == library]
            continue
        if module is None and not parsed.candle or module and not installed(module, environment):
            print(f"{library}: left out, {module or 'the candle adapter'} is not there", file=sys.stderr)
            continue
        command = [sys.executable, str(ADAPTERS / f"{words[0]}_adapter.py"), *words[1:]] if module else [parsed.candle, *words]
        folder = work / library.replace(" ", "-")
        if not (folder / "manifest.json").exists():
            subprocess.run([parsed.attn, "probe", "new", str(folder)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        judgement = judged(parsed.attn, folder, command, environment)
        about = json.loads((folder / "out" / "about.json").read_text())
        made += rows(library, about, judgement)
        count = collections.Counter(row["verdict"] for row in judgement if row["case"])
        print(f"{library} {about['version']}: {', '.join(f'{count[verdict]} {verdict}' for verdict in VERDICTS)}", file=sys.stderr)
    with open(parsed.output, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(made)


if __name__ == "__main__":
    main()
