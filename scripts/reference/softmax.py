#!/usr/bin/env python3
"""Reference values for the module theory::softmax, by other routes than the Rust code takes.

    python3 scripts/reference/softmax.py [output folder, default data/theory] [simulation | conditional | averaged]

needs numpy, scipy and mpmath, and about ten minutes. It writes

softmax_conditional.csv   one row given beta = scale |q|: the formulas of THEORY.md section 3 as they stand there, in mpmath
                          with 40 digits (so their cancellations do no harm), phi by parts as an integral of the normal law
softmax_reference.csv     averaged over |q|: the same formulas in double precision on plain z grids, Gauss-Legendre in |q|
                          with 28 nodes (two keys: 96) on each of three panels of a window that keeps all but 1e-22 of the law;
                          two keys by mpmath from the logistic function of the one difference instead
softmax_simulation.csv    means and standard errors over simulated independent rows (fresh query and keys each)
"""

import csv
import functools
import math
import pathlib
import sys

import mpmath as mp
import numpy as np
from scipy.special import gammaln, ndtr
from scipy.stats import chi

COLUMNS = ["entropy", "participation", "sum_p_cubed", "sum_p_fourth", "participation_squared",
           "jacobian_frobenius", "jacobian_trace", "log_partition"]


def conditional(beta, keys):
    """THEORY.md section 3 with v = u + beta z as the variable of the inner integrals."""
    mp.mp.dps = 40
    beta, m = mp.mpf(beta), mp.mpf(keys)
    step = min(mp.mpf("0.16"), beta * mp.mpf("0.48"))
    below = int(64 / step)
    grid = [step * k for k in range(-below, int(mp.mpf("4.4") / step))]
    weight = [[step * mp.exp(a * v - mp.exp(v)) for v in grid] for a in (1, 2, 3, 4)]
    stride = max(1, int(beta / mp.sqrt(1 + 2 * mp.log(m))))
    du = step * stride
    half = beta * beta / 2
    reach = mp.mpf(75)  # exponent of what is left out
    low = -beta * mp.sqrt(2 * reach) if half > reach else -(reach + half)
    high = beta * mp.sqrt(2 * reach) + 5

    @functools.cache
    def density(difference):
        return mp.npdf(difference * step / beta) / beta

    @functools.cache
    def distribution(difference):
        x = difference * step / beta
        return mp.ncdf(x) if abs(x) < 16 else mp.mpf(x > 0)

    # int (e^-t - phi^m) du with the first term replaced by a wide normal law of the same integral less gamma: the step
    # in u only has to resolve what is as wide as beta
    width = max(1, beta)
    one = two = three = four = pair = log_z = mp.mpf(0)
    for k in range(int(mp.floor(low / du)), int(mp.ceil(high / du)) + 1):
        u = k * du
        index = k * stride
        kernel = [density(j - below - index) for j in range(len(grid))]
        b = [mp.fdot(weight[a], kernel) for a in range(4)]
        # exp(-t e^{beta z}) = P(E > t e^{beta z}) for an exponential variable E, v = ln E
        phi = 1 - mp.fdot(weight[0], [distribution(index - j + below) for j in range(len(grid))])
        one += b[0] * phi ** (m - 1)
        two += b[1] * phi ** (m - 1)
        three += b[2] * phi ** (m - 1)
        four += b[3] * phi ** (m - 1)
        pair += b[1] ** 2 * phi ** (m - 2)
        log_z += mp.ncdf(-u / width) - phi ** m
    one, two, three, four = m * du * one, m * du * two, m * du * three / 2, m * du * four / 6
    log_z = du * log_z - mp.euler
    squared = four + m * (m - 1) / 6 * du * pair
    assert abs(one - 1) < mp.mpf("1e-20"), one
    return [log_z - beta ** 2 * (1 - two), two, three, four, squared, two - 2 * three + squared, 1 - two, log_z]


def row_table(beta):
    """u step, ln phi and B_1..B_4 on a u grid, by the trapezoid rule in z."""
    dz = min(0.15, 0.15 / beta)
    z = np.arange(-12.0, 12.0 + dz, dz)
    wz = np.exp(-z * z / 2) / math.sqrt(2 * math.pi) * dz
    du = 0.15 * max(1.0, beta / 5)
    low = -12 * beta if beta * beta / 2 > 72 else -(60 + beta * beta / 2)
    u = np.arange(low, 12 * beta + 5, du)
    log_phi, b = np.empty_like(u), np.empty((4, u.size))
    for start in range(0, u.size, 64):
        part = slice(start, start + 64)
        t = np.exp(np.minimum(u[part, None] + beta * z, 6.7))
        fall = np.exp(-t)
        miss = -np.expm1(-t) @ wz
        log_phi[part] = np.where(miss < 0.5, np.log1p(-np.minimum(miss, 0.5)), np.log(np.maximum(fall @ wz, 1e-300)))
        term = fall
        for a in range(4):
            term = term * t
            b[a, part] = term @ wz
    return du, u, log_phi, b


def from_table(beta, table, m):
    du, u, log_phi, b = table
    power = np.exp((m - 1) * log_phi)
    two, three, four = (m / g * du * (b[a] * power).sum() for a, g in ((1, 1), (2, 2), (3, 6)))
    # as in conditional()
    log_z = du * (ndtr(-u / max(1.0, beta)) - np.exp(m * log_phi)).sum() - np.euler_gamma
    squared = four + m * (m - 1) / 6 * du * (b[1] ** 2 * np.exp((m - 2) * log_phi)).sum()
    return np.array([log_z - beta ** 2 * (1 - two), two, three, four, squared, two - 2 * three + squared, 1 - two, log_z])


def radii(d, nodes):
    low, high = chi.ppf(1e-30, d), chi.isf(1e-22, d)
    low = 0.0 if low < 0.1 else low
    x, w = np.polynomial.legendre.leggauss(nodes)
    edges = np.array([low, low + (high - low) * 0.15, low + (high - low) * 0.5, high])
    q = np.concatenate([(a + e) / 2 + (e - a) / 2 * x for a, e in zip(edges, edges[1:])])
    w = np.concatenate([(e - a) / 2 * w for a, e in zip(edges, edges[1:])])
    return q, w * np.exp((d - 1) * np.log(q) - q * q / 2 - (d / 2 - 1) * math.log(2) - gammaln(d / 2))


def two_keys(d, scale):
    """Two keys: p = 1/(1 + e^-x) with x = scale |q| sqrt(2) z, by two nested one-dimensional integrals."""
    mp.mp.dps = 20
    q, w = radii(d, 96)
    g, w_unit = np.polynomial.legendre.leggauss(40)
    g, w_unit = (g + 1) / 2, w_unit / 2
    total = [mp.mpf(0)] * 9
    for radius, weight in zip(q, w):
        if weight < 1e-26:
            continue
        beta = mp.mpf(float(scale * radius))
        width = beta * mp.sqrt(2)
        end = float(min(12 * width, mp.mpf(50)))
        x = np.concatenate([end * (g + k) / 8 for k in range(8)])
        f = np.tile(w_unit * end / 8, 8) * 2 / math.sqrt(2 * math.pi) / float(width) * np.exp(-(x / float(width)) ** 2 / 2)
        r = np.exp(-x)
        small, large = r / (1 + r), 1 / (1 + r)
        entropy = large * np.log1p(r) + small * (x + np.log1p(r))
        product = small * large
        # beyond the last node every one of these is below e^-50
        h, p, pp, lo, soft = (mp.mpf(float((f * y).sum())) for y in (entropy, product, product ** 2, small, np.log1p(r)))
        # p1^2+p2^2 = 1-2p, p1^3+p2^3 = 1-3p, p1^4+p2^4 = 1-4p+2p^2, (sum p^2)^2 = 1-4p+4p^2; max = 1 - small;
        # ln Z: larger logit has mean beta/sqrt(pi), plus ln(1+e^-|x|)
        values = [h, 1 - 2 * p, 1 - 3 * p, 1 - 4 * p + 2 * pp, 1 - 4 * p + 4 * pp, 4 * pp, 2 * p,
                  beta / mp.sqrt(mp.pi) + soft, 1 - lo]
        total = [t + mp.mpf(float(weight)) * v for t, v in zip(total, values)]
    return [float(t) for t in total]


def largest_weight(d, m, scale):
    """E[max p] by the formula of THEORY.md, Gauss-Legendre in the inner variable with panels at the largest key."""
    q, w = radii(d, 20)
    dz = 0.05
    z = np.arange(-9.0, 9.0, dz)
    z = z[(m - 1) * np.log(np.maximum(0.5 * np.vectorize(math.erfc)(-z / math.sqrt(2)), 1e-300)) > -45]
    log_s = np.arange(-42.0, 3.8, 0.2)
    s = np.exp(log_s)
    x, g = np.polynomial.legendre.leggauss(32)
    total = 0.0
    for radius, weight in zip(q, w):
        if weight < 1e-20:
            continue
        beta = scale * radius
        edges = np.unique(np.minimum(np.array([0, 2, 6, 14, 30, 60]) / beta, 18.0))
        edges = np.append(edges, [e for e in (6.0, 12.0, 18.0) if e > edges[-1]])
        gap = np.concatenate([(a + e) / 2 + (e - a) / 2 * x for a, e in zip(edges, edges[1:])])
        wg = np.concatenate([(e - a) / 2 * g for a, e in zip(edges, edges[1:])])
        loss = -np.expm1(-s[:, None] * np.exp(-beta * gap))
        for value in z:
            density = wg * np.exp(-(value - gap) ** 2 / 2) / math.sqrt(2 * math.pi)
            missing = 0.5 * math.erfc(value / math.sqrt(2)) + loss @ density
            inner = (0.2 * s * np.exp(-s) * np.exp((m - 1) * np.log1p(-np.minimum(missing, 1 - 1e-16)))).sum()
            total += weight * m * dz * math.exp(-value * value / 2) / math.sqrt(2 * math.pi) * inner
    return total


def simulate(d, m, scale, rows, generator):
    sums, squares = np.zeros(9), np.zeros(9)
    for start in range(0, rows, 2000):
        count = min(2000, rows - start)
        length = np.sqrt(generator.chisquare(d, count))
        logits = scale * length[:, None] * generator.standard_normal((count, m))
        top = logits.max(axis=1, keepdims=True)
        e = np.exp(logits - top)
        total = e.sum(axis=1, keepdims=True)
        p = e / total
        log_z = (top + np.log(total))[:, 0]
        two, three, four = ((p ** a).sum(axis=1) for a in (2, 3, 4))
        values = np.array([log_z - (p * logits).sum(axis=1), two, three, four, two ** 2,
                           two - 2 * three + two ** 2, 1 - two, log_z, p.max(axis=1)])
        sums += values.sum(axis=1)
        squares += (values ** 2).sum(axis=1)
    mean = sums / rows
    return mean, np.sqrt((squares / rows - mean ** 2) / (rows - 1))


def write_simulation(folder):
    with open(folder / "softmax_simulation.csv", "w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        names = COLUMNS + ["max_weight"]
        out.writerow(["d_k", "n_keys", "scale", "rows"] + names + [f"{n}_standard_error" for n in names])
        generator = np.random.default_rng(20261129)
        for d, m, scale, rows in [(3, 13, 1.0, 200_000), (7, 101, 7 ** -0.5, 100_000), (61, 1009, 61 ** -0.5, 40_000),
                                  (61, 1009, 1.0, 40_000), (1, 3, 5.0, 400_000), (2, 31, 0.37, 200_000)]:
            mean, error = simulate(d, m, scale, rows, generator)
            out.writerow([d, m, repr(scale), rows] + [repr(float(v)) for v in mean] + [repr(float(v)) for v in error])


def write_conditional(folder):
    with open(folder / "softmax_conditional.csv", "w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["beta", "n_keys"] + COLUMNS)
        for beta, m in [(0.25, 7), (0.5, 3), (0.75, 1_000_003), (1, 13), (2.5, 101), (5.5, 1009), (7.9375, 7), (8.125, 7), (32, 1009),
                        (99, 1009), (101, 31), (1000, 1_000_003)]:
            out.writerow([beta, m] + [mp.nstr(v, 18) for v in conditional(beta, m)])
            file.flush()


def write_averaged(folder):
    with open(folder / "softmax_reference.csv", "w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["d_k", "n_keys", "scale"] + COLUMNS + ["max_weight"])
        for d in (3, 7, 61):
            for scale in (0.37, d ** -0.5, 1.0, 5.0):
                rows = {2: two_keys(d, scale), 13: np.zeros(8), 1009: np.zeros(8)}
                for radius, weight in zip(*radii(d, 28)):
                    if weight < 1e-24:
                        continue
                    table = row_table(scale * radius)
                    for m in (13, 1009):
                        rows[m] = rows[m] + weight * from_table(scale * radius, table, m)
                for m in (13, 1009):
                    rows[m] = list(rows[m]) + [largest_weight(d, m, scale)]
                for m, values in rows.items():
                    out.writerow([d, m, repr(scale)] + [repr(float(v)) for v in values])
                    file.flush()


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "data/theory")
    parts = {"simulation": write_simulation, "conditional": write_conditional, "averaged": write_averaged}
    for name in sys.argv[2:] or parts:
        parts[name](folder)


if __name__ == "__main__":
    main()
