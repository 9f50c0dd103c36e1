#!/usr/bin/env python3
"""Splices recorded results from data/recorded into README.md and the pages in docs, between `<!-- begin: NAME -->` and `<!-- end: NAME -->`.

    python3 scripts/readme.py            rewrite the pages
    python3 scripts/readme.py --check    fail when a page differs from what the files say

A section stands on one page. One whose file is not recorded yet keeps its text and is named. It may only say so: under
--check a section that shows numbers without their file fails. Links between the pages are checked too: the file, and the
heading after `#`. Standard library only.
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


CUT = "…"
LEGENDS = ("% is of theory", "ratio: the largest")


def excerpt(name, *rows):
    """The command, the rows of its tables that begin with one of `rows`, with `…` for those left out, and the sentences below them. Notes on
    standard error and the legend are left out."""
    command, *lines = text(name).rstrip().split("\n")
    kept, in_table, legend = [command], False, False
    for line in lines:
        # The legend ends where the verdicts are counted.
        legend = line.startswith(LEGENDS) or (legend and not re.match(r"\d+ \w+", line))
        if legend or line.startswith("attn: "):
            continue
        if line.startswith("─"):
            in_table = True
        elif not line:
            in_table = False
        elif in_table and not line.startswith(rows):
            line = CUT
        if (line == CUT and kept[-1] == CUT) or (not line and not kept[-1]):
            continue
        kept.append(line)
    return fenced("\n".join(kept))


def picture():
    """The picture of the sweep, with the command that drew it."""
    command = text("picture").splitlines()[0].removeprefix("$ ")
    shown = command.removesuffix(" -q -o sweep.csv")
    return f"![variance of the logits against d_k, raw and scaled, measured beside theory](data/recorded/picture.png)\n\n`{shown}`"


def audit_short():
    """The finding, and one line a check; the table of moments by head is in docs/audit.md."""
    command, *lines = text("audit").rstrip().split("\n")
    kept, skipping = [command], False
    for line in lines:
        skipping = line.lstrip().startswith("b.head") or (skipping and bool(line))
        if line.startswith("In the table"):
            break
        kept.append(CUT if skipping else line)
    kept = [line for index, line in enumerate(kept) if line != CUT or kept[index - 1] != CUT]
    return fenced("\n".join([*kept, lines[-1]]))


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


def calibration_short():
    """One row a law: the rates of all its rows, and how many are outside; the rest is in docs/method.md."""
    records = rows("calibration")
    rates = sorted({record["asked_rate"] for record in records}, key=float, reverse=True)
    seeds = " or ".join(seeds for (seeds,) in distinct(records, "seeds"))
    body = []
    for law in dict.fromkeys(record["entries"] for record in records):
        for rate in rates:
            chosen = [record for record in records if (record["entries"], record["asked_rate"]) == (law, rate)]
            judged = [record for record in chosen if record["outcome"] != "undecided"]
            whole = [record for record in chosen if record["statistic"] == "whole run"]
            body.append([law, rate, pooled(whole), len(judged), sum(record["outcome"] == "outside" for record in judged)])
    judged, outside = (sum(record["outcome"] != "undecided" for record in records),
                       sum(record["outcome"] == "outside" for record in records))
    header = ["entries", "asked for", "whole runs that fail", "rates judged", "outside their interval"]
    return (f"The measured false-alarm rate of a correct implementation over {seeds} seeds for each size, law and number of trials; the interval is the exact\n"
            f"binomial one that leaves out one correct rate in a thousand.\n\n{table(header, body)}\n\n"
            f"{outside} of {judged} judged rates are outside; chance alone puts about {judged / 1000:.1f} there.")


def short(value):
    """1e-6 for 0.000001."""
    return re.sub(r"e([+-])0*", lambda match: "e" + match[1].replace("+", ""), f"{float(value):g}")


def power_short():
    """Faults at one size: as large as asked for, half as large, none."""
    return power(lambda record: (record["n_queries"], record["n_keys"]) == ("64", "64") and not record["fault"].startswith("-"))


def power(chosen=lambda record: True):
    records = [record for record in rows("power") if chosen(record)]
    header = ["d", "n × m", "false alarm", "miss", "detect", "trials", "error in the variance", "rejected", "share (95 %)"]
    body = []
    for record in records:
        limits = f"{float(record['rate']):.3f} ({float(record['interval_low']):.3f} to {float(record['interval_high']):.3f})"
        fault = 100 * float(record["fault"])
        body.append([record["d_k"], f"{record['n_queries']} × {record['n_keys']}", short(record["false_alarm"]), short(record["miss"]),
                     f"{100 * float(record['detect']):g} %", record["trials"], f"{fault:+g} %" if fault else "none",
                     f"{record['rejected']} of {record['seeds']}", limits])
    return table(header, body, left=0)


def benchmark_short():
    """The strongest forms, compiled ones included, at the sizes where they are strongest."""
    return benchmark(lambda record: record["footing"] == "beside" or record["n"] == "4096",
                     ["numpy slabs", "torch slabs", "torch compile", "jax blocks"])


def benchmark(chosen=lambda record: True, peers=("numpy slabs", "numpy plain", "torch slabs", "torch plain", "torch compile", "jax blocks"), recorded="benchmark"):
    """Trials of variance and spikiness: what a peer takes for one of attn."""
    records = [record for record in rows(recorded) if record["job"] in ("variance", "spikiness") and chosen(record)]
    body = []
    names = ("job", "d_k", "n", "dtype", "footing")
    for key in dict.fromkeys(tuple(record[name] for name in names) for record in records):
        here = {f"{record['program']} {record['method']}": record for record in records if tuple(record[name] for name in names) == key}
        if len(here) == 1:
            continue
        own = here.pop("attn fused")
        ratios = [ratio(here[peer]) if peer in here else "" for peer in peers]
        least = min(float(record["peak_mebibytes"]) for record in here.values())
        body.append([*key, own["milliseconds"], *ratios, own["peak_mebibytes"], f"{least:g}"])
    header = ["job", "d", "n = m", "type", "threads", "ms a trial", *peers, "MiB", "MiB, least peer"]
    return f"{table(header, body, left=1)}\n\n{benchmark_legend(records)}"


def ratio(record):
    """Its median over the rounds, with the smallest and the largest."""
    return f"{record['ratio']} ({record['ratio_low']}–{record['ratio_high']})"


def benchmark_legend(records):
    versions = list(dict.fromkeys((record["program"], record["program_version"]) for record in records))
    threads = " or ".join(threads for (threads,) in distinct(records, "threads"))
    rounds = " or ".join(sorted({record["rounds"] for record in records if record["program"] != "attn"}, key=int))
    named = ", ".join(f"{program} {version}" for program, version in versions)
    return (f"Peer columns: time of the peer over time of `attn`, median over {rounds} rounds (smallest–largest). {threads} threads: inside one process, or "
            f"beside each other, a peer being run as {threads} processes with one thread each. {named}.")


def benchmark_others(recorded="benchmark"):
    """Attention with its output, moments by algebra, whole processes."""
    records = [record for record in rows(recorded) if record["job"] in ("attention", "moments", "process")]
    own = {(record["job"], record["n"]): record for record in records if record["program"] == "attn"}
    body = [[record["job"], record["n"], f"{record['program']} {record['method']}", own[record["job"], record["n"]]["milliseconds"],
             record["milliseconds"], ratio(record),
             own[record["job"], record["n"]]["peak_mebibytes"], record["peak_mebibytes"]]
            for record in records if record["program"] != "attn"]
    return table(["job", "n = m", "peer", "ms, attn", "ms, peer", "ratio", "MiB, attn", "MiB, peer"], body, left=1)


def benchmark_memory():
    """Peak memory beside that of Q and K themselves."""
    records = [record for record in rows("benchmark") if record["n"] == "65536"]
    body = []
    for record in records:
        inputs = 2 * 65536 * int(record["d_k"]) * (8 if record["dtype"] == "f64" else 4) / 2**20
        peak = float(record["peak_mebibytes"])
        body.append([record["job"], record["dtype"], record["milliseconds"], f"{peak:g}", f"{inputs:g}", f"{peak - inputs:.1f}"])
    return table(["job", "type", "ms", "MiB", "of them Q and K", "MiB beyond"], body, left=1)


def roofline():
    """What the machine can do, and a trial beside it."""
    body = [[record["dtype"], record["quantity"], f"{float(record['value']):.4g}", record["unit"], f"{float(record['low']):.4g}–{float(record['high']):.4g}"]
            for record in rows("roofline")]
    return table(["type", "quantity", "median", "unit", "smallest–largest"], body, left=2)


def profile():
    """Where the time of a trial goes."""
    records = rows("profile")
    stages = list(dict.fromkeys(record["stage"] for record in records))
    stages.sort(key=lambda stage: stage == "rest")
    jobs = list(dict.fromkeys((record["job"], record["dtype"], record["n"]) for record in records))
    share = {(record["job"], record["dtype"], record["n"], record["stage"]): float(record["share"]) for record in records}
    body = [[*job, *(f"{100 * share[*job, stage]:.1f} %" if (*job, stage) in share else "" for stage in stages)] for job in jobs]
    return table(["job", "type", "n = m", *stages], body, left=1)


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


# Sections that are the whole of a recorded run, NAME.txt.
WHOLE = ["variance", "small", "error", "csv", "json", "mean", "correlation", "spikiness", "mask", "mask-claim", "positional", "rotary",
         "cache", "heads", "probe", "depth", "check", "audit", "complexity"]

# What a section is made of: its file, and how.
SECTIONS = {
    **{name: (f"{name}.txt", lambda name=name: fenced(text(name))) for name in WHOLE},
    "picture": ("picture.png", picture),
    "naive": ("naive.txt", naive),
    "sweep": ("sweep.txt", sweep),
    "mean-short": ("mean.txt", lambda: excerpt("mean", "logit_variance", "q_mean", "q_variance")),
    "spikiness-short": ("spikiness.txt", lambda: excerpt("spikiness", "entropy", "participation", "max_weight")),
    "mask-short": ("mask-claim.txt", lambda: excerpt("mask-claim", "visible_share", "masked_weight_max", "leak ", "logit_variance", "entropy")),
    "complexity-short": ("complexity.txt", lambda: excerpt("complexity", "1024 × 1024", "2048 × 2048", "qk  ", "total, streaming")),
    "rotary-short": ("rotary.txt", lambda: excerpt("rotary", "logit_variance", "angle_error", "norm_change", "score_error")),
    "cache-short": ("cache.txt", lambda: excerpt("cache", "bound_share", "sequence_difference", "operations_cached:511", "operations_uncached:511")),
    "heads-short": ("heads.txt", lambda: excerpt("heads", "weight_matrices", "head_correlation", "logit_mean:head1", "logit_variance:head1")),
    "depth-short": ("depth.txt", lambda: excerpt("depth", *(f"{name}:layer{layer}" for layer in range(4) for name in ("token_cosine", "gradient_scale")))),
    "audit-short": ("audit.txt", audit_short),
    "probe-short": ("probe.txt", lambda: excerpt("probe", "default-scale", "causal", "empty-rows", "window", "f16", "determinism")),
    "probe-matrix": ("../probe_matrix.csv", probe_matrix),
    "calibration": ("calibration.csv", calibration),
    "calibration-short": ("calibration.csv", calibration_short),
    "power": ("power.csv", power),
    "power-short": ("power.csv", power_short),
    "benchmark": ("benchmark.csv", benchmark),
    "benchmark-others": ("benchmark.csv", benchmark_others),
    "benchmark-memory": ("benchmark.csv", benchmark_memory),
    "benchmark-narrow": ("benchmark_avx2.csv", lambda: benchmark(recorded="benchmark_avx2")),
    "benchmark-narrow-others": ("benchmark_avx2.csv", lambda: benchmark_others("benchmark_avx2")),
    "roofline": ("roofline.csv", roofline),
    "profile": ("profile.csv", profile),
    "benchmark-short": ("benchmark.csv", benchmark_short),
}

PAGES = ["README.md", *sorted(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md"))]


def without_code(page):
    """The text without what stands in fences."""
    return re.sub(r"^```.*?^```$", "", page, flags=re.DOTALL | re.MULTILINE)


def anchors(page):
    """The anchors that GitHub gives to headings: lower case, no punctuation, blanks as hyphens."""
    headings = re.findall(r"^#+ (.+)$", without_code(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower()).replace(" ", "-") for heading in headings}


def broken_links(pages):
    """Links to files that are not there, or to headings that their page does not have."""
    for name, page in pages.items():
        for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", without_code(page)):
            path, _, heading = target.partition("#")
            file = (ROOT / name).parent / path if path else ROOT / name
            if not file.exists():
                yield f"{name}: links to {target}, which is not there"
            elif heading and heading not in anchors(file.read_text(encoding="utf-8")):
                yield f"{name}: links to {target}, which has no such heading"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing, fail when a page differs")
    check = parser.parse_args().check
    problems, found, pages = [], set(), {}

    for page in PAGES:
        old = (ROOT / page).read_text(encoding="utf-8")
        here = []

        def splice(match):
            name, body = match["name"], match["body"]
            here.append(name)
            if name in found:
                problems.append(f"{page}: the section '{name}' stands twice")
            found.add(name)
            if name not in SECTIONS:
                problems.append(f"{page}: the section '{name}' is not known to scripts/readme.py")
                return match[0]
            source, make = SECTIONS[name]
            if not (RECORDED / source).exists():
                print(f"readme.py: section '{name}': data/recorded/{source} is not recorded yet", file=sys.stderr)
                if body.strip() != PLACEHOLDER:
                    problems.append(f"{page}: the section '{name}' shows results, but data/recorded/{source} is missing")
                return match[0]
            return f"<!-- begin: {name} -->\n{make()}\n<!-- end: {name} -->"

        new = SECTION.sub(splice, old)
        if 2 * len(here) != len(MARKER.findall(old)):
            problems.append(f"{page}: a marker without its partner")
        if check and new != old:
            line = next(index for index, (a, b) in enumerate(zip(old.split("\n") + [""], new.split("\n") + [""]), 1) if a != b)
            problems.append(f"{page} differs from data/recorded from line {line} on; run: python3 scripts/readme.py")
        if not check and new != old:
            (ROOT / page).write_text(new, encoding="utf-8")
        pages[page] = new
    problems += [f"no page has the section '{name}'" for name in SECTIONS if name not in found]
    problems += broken_links(pages)
    for problem in problems:
        print(f"readme.py: {problem}", file=sys.stderr)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
