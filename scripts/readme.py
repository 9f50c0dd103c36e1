#!/usr/bin/env python3
"""Splices recorded results from data/recorded into README.md, between `<!-- begin: NAME -->` and `<!-- end: NAME -->`.

    python3 scripts/readme.py            rewrite README.md
    python3 scripts/readme.py --check    fail when README.md differs from what the files say

A section whose file is not recorded yet keeps its text and is named. It may only say so: under --check a section that
shows numbers without their file fails. Standard library only.
"""
import argparse
import csv
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
RECORDED = ROOT / "data" / "recorded"
PLACEHOLDER = "Not recorded yet."
SECTION = re.compile(r"<!-- begin: (?P<name>[a-z-]+) -->\n(?P<body>.*?)<!-- end: (?P=name) -->", re.DOTALL)
MARKER = re.compile(r"<!-- (?:begin|end): ")


def text(name):
    return (RECORDED / f"{name}.txt").read_text(encoding="utf-8")


def rows(name):
    with open(RECORDED / f"{name}.csv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def fenced(content):
    return f"```console\n{content.rstrip()}\n```"


def table(header, body, left=1):
    """A GitHub table; the first `left` columns are aligned left, the others right."""
    lines = [header, ["---" if column < left else "---:" for column in range(len(header))], *body]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def sweep():
    """The command, and of its table the raw variance and the slopes; rows are those that start with the name or follow it."""
    command, _, *lines = text("sweep").splitlines()
    kept, keep = [], False
    for line in lines:
        if line.startswith(("variance_slope", "logit_variance  none")):
            keep = True
        elif line and not line.startswith(" "):
            keep = line.startswith(("statistic", "─", "n = ", "exit code")) or " claims upheld" in line
        elif not line:
            keep = keep and bool(kept) and kept[-1] != ""
        if keep:
            kept.append(line)
    return fenced("\n".join([command, *kept]))


def naive():
    """The share of correct draws that the naive test rejects, out of the recorded count."""
    line = text("naive").splitlines()[-1]
    rejected, trials = map(int, re.match(r"(\d+) of (\d+) correct draws rejected", line).groups())
    return (f"At n = m = 1024, d = 64, a test that takes the n·m logits of one draw for independent rejects {rejected} of {trials} correct\n"
            f"draws ({100 * rejected / trials:.0f} %) at a nominal false-alarm rate of one in a million (data/recorded/naive.txt has the command).")


def number(value):
    """Numbers that sort as numbers, words that sort as words."""
    return (0, float(value), "") if re.fullmatch(r"[\d.e+-]+", value) else (1, 0.0, value)


def distinct(records, *names):
    seen = dict.fromkeys(tuple(record[name] for name in names) for record in records)
    return sorted(seen, key=lambda key: tuple(number(value) for value in key))


def pooled(records):
    """Rate over several cells; a dash where none of them was judged."""
    judged = sum(int(record["judged"]) for record in records)
    return f"{sum(int(record['false_alarms']) for record in records) / judged:.3f}" if judged else "–"


def calibration():
    records = rows("calibration")
    laws = list(dict.fromkeys(record["entries"] for record in records))
    rates = sorted({record["asked_rate"] for record in records}, key=float, reverse=True)
    cells = distinct(records, "d_k", "trials")
    shapes = " and ".join(f"{n} × {m}" for n, m in distinct(records, "n_queries", "n_keys"))
    seeds = " or ".join(seeds for (seeds,) in distinct(records, "seeds"))
    parts = [f"Measured over {seeds} seeds for each size, law of the entries and number of trials; n × m is {shapes}, pooled in the rate tables."]
    for statistic, what in (("logit_variance", "the row `logit_variance` alone"), ("whole run", "a whole run (any row rejected)")):
        chosen = [record for record in records if record["statistic"] == statistic]
        body = [[law, *(" / ".join(pooled([record for record in chosen
                                           if (record["entries"], record["asked_rate"]) == (law, rate)
                                           and (record["d_k"], record["trials"]) == cell]) for rate in rates)
                        for cell in cells)] for law in laws]
        parts.append(f"False-alarm rate of {what}; asked for: {' / '.join(rates)}")
        parts.append(table(["entries", *(f"d = {d_k}, T = {trials}" for d_k, trials in cells)], body))
    outcomes = ["inside", "below, and the test says conservative", "outside", "undecided"]
    unknown = {record["outcome"] for record in records} - set(outcomes)
    if unknown:
        sys.exit(f"data/recorded/calibration.csv: unknown outcome {sorted(unknown)}")
    body = []
    for rate in rates:
        for law in laws:
            chosen = [record for record in records if (record["entries"], record["asked_rate"]) == (law, rate)]
            measured = [float(record["measured_rate"]) for record in chosen if record["measured_rate"]]
            counts = [sum(record["outcome"] == outcome for record in chosen) for outcome in outcomes]
            spread = f"{min(measured):.4f} to {max(measured):.4f}" if measured else "–"
            body.append([law, rate, *counts, spread])
    judged = sum(record["outcome"] != "undecided" for record in records)
    outside = sum(record["outcome"] == "outside" for record in records)
    tested = [record for record in records if record["uniformity_p"] and record["asked_rate"] == rates[0]]
    low = [record for record in tested if float(record["uniformity_p"]) < 0.001]
    parts.append("All rows, and the whole run, against the exact binomial interval that leaves out one correct rate in a thousand")
    parts.append(table(["entries", "asked for", "inside", "below, conservative", "outside", "undecided", "measured rates"], body))
    parts.append(f"{outside} of {judged} judged rates are outside; chance alone puts about {judged / 1000:.1f} there.")
    named = "; ".join(f"{record['entries']} {record['n_queries']} × {record['n_keys']}, d = {record['d_k']}, T = {record['trials']}: "
                      f"`{record['statistic']}`" for record in low)
    parts.append("Are the p-values of each row uniform over the seeds? Of "
                 f"{len(tested)} rows tested, {len(low)} {'gives' if len(low) == 1 else 'give'} a p-value below 0.001; chance alone puts "
                 f"about {len(tested) / 1000:.1f} there.{' ' + named + '.' if low else ''}")
    return "\n\n".join(parts)


def short(value):
    """1e-6 for 0.000001."""
    return re.sub(r"e([+-])0*", lambda match: "e" + match[1].replace("+", ""), f"{float(value):g}")


def power():
    records = rows("power")
    header = ["d", "n × m", "false alarm", "miss", "detect", "trials", "error in the variance", "rejected", "share (95 %)"]
    body = []
    for record in records:
        limits = f"{float(record['rate']):.3f} ({float(record['interval_low']):.3f} to {float(record['interval_high']):.3f})"
        fault = 100 * float(record["fault"])
        body.append([record["d_k"], f"{record['n_queries']} × {record['n_keys']}", short(record["false_alarm"]), short(record["miss"]),
                     f"{100 * float(record['detect']):g} %", record["trials"], f"{fault:+g} %" if fault else "none",
                     f"{record['rejected']} of {record['seeds']}", limits])
    return table(header, body, left=0)


def benchmark():
    records = rows("benchmark")
    peers = list(dict.fromkeys((record["program"], record["method"]) for record in records if record["program"] != "attn"))
    body = []
    for key in dict.fromkeys(tuple(record[name] for name in ("job", "d_k", "n", "dtype")) for record in records):
        here = {(record["program"], record["method"]): record for record in records
                if tuple(record[name] for name in ("job", "d_k", "n", "dtype")) == key}
        own = here["attn", "fused"]
        ratios = [f"{here[peer]['ratio']} ({here[peer]['ratio_low']}–{here[peer]['ratio_high']})" for peer in peers]
        largest = min(float(here[peer]["peak_mebibytes"]) for peer in peers)
        body.append([*key, own["milliseconds"], own["trials_per_second"], *ratios, own["peak_mebibytes"], f"{largest:g}"])
    versions = list(dict.fromkeys((record["program"], record["program_version"]) for record in records))
    threads = " or ".join(threads for (threads,) in distinct(records, "threads"))
    rounds = " or ".join(rounds for (rounds,) in distinct(records, "rounds"))
    header = ["job", "d", "n = m", "type", "ms a trial", "trials/s", *(f"{program} {method}" for program, method in peers),
              "MiB", "MiB, least peer"]
    named = ", ".join(f"{program} {version}" for program, version in versions)
    return (f"{table(header, body, left=1)}\n\n"
            f"Peer columns: time of the peer over time of `attn`, median over {rounds} rounds (smallest–largest). {threads} threads. {named}.")


# Columns of the README's matrix; the others are in the file.
SHOWN_LIBRARIES = ["torch", "torch flex", "torch MHA", "transformers eager", "jax", "flax", "keras jax", "onnx", "onnxruntime", "tinygrad", "mlx",
                   "candle", "candle varlen", "candle unfused"]


def probe_matrix():
    """Capability by library: right of those supported, or what went wrong."""
    records = rows("../probe_matrix")
    libraries = [name for name in SHOWN_LIBRARIES if any(record["library"] == name for record in records)]
    by_place = {(record["library"], record["capability"]): record for record in records}
    capabilities = list(dict.fromkeys(record["capability"] for record in records))

    def cell(library, capability):
        record = by_place[library, capability]
        right, supported = int(record["right"]), int(record["cases"]) - int(record["unsupported"])
        if not supported:
            return "–"
        return f"{'✓' if right == supported else '**✗**'} {right}/{record['cases']}"

    # A capability that nobody lacks and nobody gets wrong says nothing here.
    telling = [name for name in capabilities if any(not cell(library, name).startswith("✓") for library in libraries)]
    body = [[name, *(cell(library, name) for library in libraries)] for name in telling]
    same = [name for name in capabilities if name not in telling]
    known = dict.fromkeys((record["implementation"], record["library_version"]) for record in records if record["library"] in libraries)
    versions = ", ".join(f"{implementation} {version}" for implementation, version in known)
    return (f"{table(['capability', *libraries], body)}\n\n"
            f"✓ every case that the library supports is right, ✗ one is not, – it offers no such thing; n/m: n of m cases are right. "
            f"All of them have {', '.join(same)} right.\n{versions}.")


# What a section is made of: its file, and how.
SECTIONS = {
    "naive": ("naive.txt", naive),
    "variance": ("variance.txt", lambda: fenced(text("variance"))),
    "sweep": ("sweep.txt", sweep),
    "small": ("small.txt", lambda: fenced(text("small"))),
    "error": ("error.txt", lambda: fenced(text("error"))),
    "csv": ("csv.txt", lambda: fenced(text("csv"))),
    "json": ("json.txt", lambda: fenced(text("json"))),
    "mean": ("mean.txt", lambda: fenced(text("mean"))),
    "correlation": ("correlation.txt", lambda: fenced(text("correlation"))),
    "spikiness": ("spikiness.txt", lambda: fenced(text("spikiness"))),
    "attention": ("attention.txt", lambda: fenced(text("attention"))),
    "mask": ("mask.txt", lambda: fenced(text("mask"))),
    "mask-claim": ("mask-claim.txt", lambda: fenced(text("mask-claim"))),
    "positional": ("positional.txt", lambda: fenced(text("positional"))),
    "rotary": ("rotary.txt", lambda: fenced(text("rotary"))),
    "cache": ("cache.txt", lambda: fenced(text("cache"))),
    "heads": ("heads.txt", lambda: fenced(text("heads"))),
    "probe": ("probe.txt", lambda: fenced(text("probe"))),
    "depth": ("depth.txt", lambda: fenced(text("depth"))),
    "check": ("check.txt", lambda: fenced(text("check"))),
    "probe-matrix": ("../probe_matrix.csv", probe_matrix),
    "calibration": ("calibration.csv", calibration),
    "power": ("power.csv", power),
    "benchmark": ("benchmark.csv", benchmark),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing, fail when README.md differs")
    check = parser.parse_args().check
    readme = ROOT / "README.md"
    old = readme.read_text(encoding="utf-8")
    problems, found = [], set()

    def splice(match):
        name, body = match["name"], match["body"]
        found.add(name)
        if name not in SECTIONS:
            problems.append(f"README.md: the section '{name}' is not known to scripts/readme.py")
            return match[0]
        source, make = SECTIONS[name]
        if not (RECORDED / source).exists():
            print(f"readme.py: section '{name}': data/recorded/{source} is not recorded yet", file=sys.stderr)
            if body.strip() != PLACEHOLDER:
                problems.append(f"README.md: the section '{name}' shows results, but data/recorded/{source} is missing")
            return match[0]
        return f"<!-- begin: {name} -->\n{make()}\n<!-- end: {name} -->"

    new = SECTION.sub(splice, old)
    if 2 * len(found) != len(MARKER.findall(old)):
        problems.append("README.md: a marker without its partner, or a section twice")
    problems += [f"README.md: no section '{name}'" for name in SECTIONS if name not in found]
    if check and new != old:
        line = next(index for index, (a, b) in enumerate(zip(old.split("\n") + [""], new.split("\n") + [""]), 1) if a != b)
        problems.append(f"README.md differs from data/recorded from line {line} on; run: python3 scripts/readme.py")
    if not check and new != old:
        readme.write_text(new, encoding="utf-8")
    for problem in problems:
        print(f"readme.py: {problem}", file=sys.stderr)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
