#!/usr/bin/env python3
"""Exact rational reference values for src/theory/trial_cumulants: run and compare with the tests there.

Other methods than the program's, in exact fractions: raw moments by set partitions with falling factorials (sample
variance), truncated power series to the d-th power by repeated squaring (kurtosis), and enumeration of every outcome for
tiny samples. Needs Python 3 only.
"""
from fractions import Fraction as F
from itertools import permutations, product
from math import comb, factorial

HIGHEST = 12
STANDARD = {
    "normal": lambda k: F(factorial(2 * k), 2**k * factorial(k)),
    "uniform": lambda k: F(3**k, 2 * k + 1),
    "rademacher": lambda k: F(1),
    "laplace": lambda k: F(factorial(2 * k), 2**k),
}


def raw_moments(name, mean, sd):
    z = [STANDARD[name](r // 2) if r % 2 == 0 else F(0) for r in range(HIGHEST + 1)]
    return [sum(comb(r, k) * mean ** (r - k) * sd**k * z[k] for k in range(r + 1)) for r in range(HIGHEST + 1)]


def partitions(slots):
    """Set partitions as tuples of class numbers."""
    result = [()]
    for _ in range(slots):
        result = [p + (c,) for p in result for c in range(max(p, default=-1) + 2)]
    return result


def falling(n, count):
    value = F(1)
    for i in range(count):
        value *= n - i
    return value


def cumulants(raw):
    m = raw
    return [m[1], m[2] - m[1] ** 2, m[3] - 3 * m[1] * m[2] + 2 * m[1] ** 3]


def sample_variance_cumulants(n, m, d, q, k):
    """kappa_1..3 of [sum S^2 - (sum S)^2/(nm)]/(nm - 1) from raw moments; q, k raw moments of the entries."""
    raw = [F(1)]
    for r in (1, 2, 3):
        depth_partitions = partitions(2 * r)
        total = F(0)
        for mix in product((0, 1), repeat=r):  # 0: S_ij^2, 1: S_ij S_i'j'
            nodes, node_of_slot = 0, []
            for kind in mix:
                node_of_slot += [nodes, nodes + kind]
                nodes += 1 + kind
            token_partitions = partitions(nodes)

            def side(tokens, moments, depth):
                value = F(0)
                for token in token_partitions:
                    cells = {}
                    for slot, node in enumerate(node_of_slot):
                        cell = (token[node], depth[slot])
                        cells[cell] = cells.get(cell, 0) + 1
                    term = falling(tokens, max(token) + 1)
                    for count in cells.values():
                        term *= moments[count]
                    value += term
                return value

            sign = F(-1, n * m) ** sum(mix)
            for depth in depth_partitions:
                total += sign * falling(d, max(depth) + 1) * side(n, q, depth) * side(m, k, depth)
        raw.append(total / F(n * m - 1) ** r)
    return cumulants(raw)


def power_series(one_depth, d, limits):
    """The d-th power of a multivariate series {powers: coefficient}, truncated at the limits."""
    def times(a, b):
        c = {}
        for x, u in a.items():
            for y, v in b.items():
                s = tuple(i + j for i, j in zip(x, y))
                if all(i <= l for i, l in zip(s, limits)):
                    c[s] = c.get(s, F(0)) + u * v
        return c
    result, base = {tuple(0 for _ in limits): F(1)}, one_depth
    while d:
        if d & 1:
            result = times(result, base)
        d >>= 1
        if d:
            base = times(base, base)
    return result


def power_mean_cumulants(n, m, d, q, k, factors):
    """Joint cumulants of M2 and M4 about the theoretical mean: {powers: value}, `factors` of them."""
    limits = (4,) * factors
    shift = q[1] * k[1]
    sums = {}
    for query in partitions(factors):
        for key in partitions(factors):
            weight = falling(n, max(query) + 1) * falling(m, max(key) + 1) / F(n * m) ** factors
            if weight == 0:
                continue
            one = {}
            for powers in product(range(5), repeat=factors):
                value = F(0)
                for kept in product(*(range(p + 1) for p in powers)):
                    term = F(1)
                    for p, b in zip(powers, kept):
                        term *= comb(p, b) * (-shift) ** (p - b)
                    if term == 0:
                        continue
                    for classes, moments in ((query, q), (key, k)):
                        for c in set(classes):
                            term *= moments[sum(b for b, x in zip(kept, classes) if x == c)]
                    value += term
                for p in powers:
                    value /= factorial(p)
                if value:
                    one[powers] = value
            series = power_series(one, d, limits)
            moment = lambda *p: series.get(p, F(0)) * product_of(factorial(i) for i in p)
            for p in product((2, 4), repeat=factors):
                if factors == 1:
                    value = moment(*p)
                elif factors == 2:
                    value = moment(*p) - moment(p[0], 0) * moment(0, p[1])
                else:
                    a, b, c = moment(p[0], 0, 0), moment(0, p[1], 0), moment(0, 0, p[2])
                    value = (moment(*p) - moment(p[0], p[1], 0) * c - moment(p[0], 0, p[2]) * b
                             - moment(0, p[1], p[2]) * a + 2 * a * b * c)
                sums[p] = sums.get(p, F(0)) + weight * value
    return sums


def product_of(values):
    result = 1
    for value in values:
        result *= value
    return result


def kurtosis_values(n, m, d, q, k):
    """E2, E4, relative Var M2, Var M4, Cov, relative variance and third cumulant of L."""
    e = power_mean_cumulants(n, m, d, q, k, 1)
    e = {2: e[(2,)], 4: e[(4,)]}
    two = power_mean_cumulants(n, m, d, q, k, 2)
    three = power_mean_cumulants(n, m, d, q, k, 3)
    relative = lambda table, *p: table[p] / product_of(e[i] for i in p)
    v2, v4, c = relative(two, 2, 2), relative(two, 4, 4), relative(two, 2, 4)
    third = sum((-2) ** p.count(2) * relative(three, *p) for p in product((2, 4), repeat=3))
    return e[2], e[4], v2, v4, c, v4 - 4 * c + 4 * v2, third


def entry_sample_variance_cumulants(law, count):
    raw = [F(0)] * 4
    for outcome in product(law.items(), repeat=count):
        weight = product_of(p for _, p in outcome)
        values = [v for v, _ in outcome]
        mean = F(sum(values), count)
        k2 = sum((v - mean) ** 2 for v in values) / F(count - 1)
        for r in range(4):
            raw[r] += weight * k2**r
    return cumulants(raw)


def permutation_correlation(x, y):
    """Permutation moments 2 and 4 of the correlation, and (g_x, g_y), g = k_4/k_2^2 of each sample."""
    def centred(v):
        return [F(a) - F(sum(v), len(v)) for a in v]
    def g(v):
        n, v = len(v), centred(v)
        s2, s4 = sum(a * a for a in v), sum(a**4 for a in v)
        k4 = F(n * n * (n + 1), (n - 1) * (n - 2) * (n - 3)) * s4 / n - F(3 * n * n, (n - 2) * (n - 3)) * (s2 / n) ** 2
        return k4 / (s2 / (n - 1)) ** 2
    a, b = centred(x), centred(y)
    norm = sum(i * i for i in a) * sum(i * i for i in b)
    seconds = [sum(i * j for i, j in zip(a, p)) ** 2 / norm for p in permutations(b)]
    return sum(seconds) / len(seconds), sum(s * s for s in seconds) / len(seconds), g(x), g(y)


def wick(factors, mean, covariance):
    """E of a product of jointly normal variables."""
    if not factors:
        return F(1)
    first, *rest = factors
    value = mean * wick(rest, mean, covariance)
    for i, other in enumerate(rest):
        pair = covariance(first, other)
        if pair:
            value += pair * wick(rest[:i] + rest[i + 1:], mean, covariance)
    return value


def correlated_tokens(n, d, mean, sd, rho):
    """E S_ii, Var S_ii, E of the mean and of the sample variance of all logits."""
    def covariance(a, b):
        return F(0) if a[1:] != b[1:] else sd * sd * (1 if a[0] == b[0] else rho)

    def expect(sites):
        total = F(0)
        for depths in product(range(d), repeat=len(sites)):
            factors = [x for (i, j), h in zip(sites, depths) for x in (("q", i, h), ("k", j, h))]
            total += wick(factors, mean, covariance)
        return total

    sites = list(product(range(n), repeat=2))
    total = sum(expect([a, b]) for a in sites for b in sites)
    diagonal = expect([(0, 0)])
    return (diagonal, expect([(0, 0)] * 2) - diagonal**2, sum(expect([a]) for a in sites) / F(n * n),
            (sum(expect([a, a]) for a in sites) - total / F(n * n)) / F(n * n - 1))


def outcomes(query, key, n, m, d):
    """All logits of every pair of matrices, with their probability."""
    def matrices(law, rows):
        for outcome in product(law.items(), repeat=rows * d):
            values = [v for v, _ in outcome]
            yield [values[i * d:(i + 1) * d] for i in range(rows)], product_of(p for _, p in outcome)
    keys = list(matrices(key, m))
    for q, weight_q in matrices(query, n):
        for k, weight_k in keys:
            yield [sum(a * b for a, b in zip(x, y)) for x in q for y in k], weight_q * weight_k


def enumerate_kurtosis(query, key, n, m, d):
    """E2, E4, relative Var M2, Var M4, Cov and third cumulant of L, over all matrices."""
    mean = lambda law: sum(v * p for v, p in law.items())
    centre = d * mean(query) * mean(key)
    joint = {}
    for logits, weight in outcomes(query, key, n, m, d):
        pair = tuple(sum((s - centre) ** p for s in logits) / F(n * m) for p in (2, 4))
        joint[pair] = joint.get(pair, F(0)) + weight
    e2, e4 = (sum(pair[i] * p for pair, p in joint.items()) for i in (0, 1))
    expect = lambda f: sum(p * f(x / e2 - 1, y / e4 - 1) for (x, y), p in joint.items())
    return (e2, e4, expect(lambda a, b: a * a), expect(lambda a, b: b * b), expect(lambda a, b: a * b),
            float(expect(lambda a, b: (b - 2 * a) ** 3)))


def with_fourth(raw):
    fourth = sum(comb(4, r) * raw[r] * (-raw[1]) ** (4 - r) for r in range(5))
    first = cumulants(raw)
    return first + [fourth - 3 * first[1] ** 2]


def enumerate_trials(query, key, n, m, d):
    """kappa of the mean (4), mean square (4) and sample variance (3) over all matrices; laws as {value: probability}."""
    raw = [[F(0)] * 5 for _ in range(3)]
    for logits, weight in outcomes(query, key, n, m, d):
        mean, square = F(sum(logits), n * m), sum(s * s for s in logits) / F(n * m)
        values = mean, square, (square - mean**2) * n * m / F(n * m - 1)
        for moments, value in zip(raw, values):
            for r in range(5):
                moments[r] += weight * value**r
    return with_fourth(raw[0]), with_fourth(raw[1]), cumulants(raw[2])


def show(label, values):
    print(label, *(f"{float(v):.17e}" for v in values))


if __name__ == "__main__":
    cases = [
        ("normal", 0, 1, 0, 1, (512, 509, 64)),
        ("uniform", 0, 1, 0, 1, (65536, 65521, 4096)),
        ("laplace", 0, 1, 0, 1, (65536, 65521, 1)),
        ("rademacher", 0, 1, 0, 1, (65536, 65521, 4096)),
        ("rademacher", 0, 1, 0, 1, (65521, 3, 1)),
        ("uniform", 100, F(1, 2), F(-1, 4), 2, (65521, 257, 61)),
        ("laplace", F(1, 2), 1, F(3, 2), 1, (11, 13, 7)),
    ]
    for name, mq, sq, mk, sk, (n, m, d) in cases:
        q, k = raw_moments(name, F(mq), F(sq)), raw_moments(name, F(mk), F(sk))
        label = f"{name} q({mq},{sq}) k({mk},{sk}) n={n} m={m} d={d}"
        show(label + " sample variance:", sample_variance_cumulants(n, m, d, q, k))
        show(label + " kurtosis:", kurtosis_values(n, m, d, q, k))
    three_points = {F(-1): F(1, 2), F(0): F(1, 6), F(2): F(1, 3)}
    show("three points, N = 5, k_2:", entry_sample_variance_cumulants(three_points, 5))
    print("correlated:", *correlated_tokens(3, 2, F(1, 2), F(3, 2), F(-3, 5)))
    print("correlated:", *correlated_tokens(2, 3, F(-2), F(1, 2), F(4, 5)))
    shifted = {F(3, 2): F(1, 2), F(-1, 2): F(1, 2)}
    signs, large = {F(1): F(1, 2), F(-1): F(1, 2)}, {F(7): F(1, 2), F(3): F(1, 2)}
    for query, key, sizes in (
        (three_points, three_points, (2, 2, 2)), (three_points, three_points, (1, 3, 1)),
        (three_points, shifted, (2, 3, 2)), (signs, signs, (2, 3, 2)), (signs, signs, (3, 2, 1)),
        (signs, signs, (2, 3, 3)), (signs, signs, (3, 2, 2)), (shifted, shifted, (2, 3, 2)),
        (large, shifted, (3, 2, 2)), (large, signs, (3, 2, 2)), (signs, shifted, (2, 2, 3)),
    ):
        for name, values in zip(("mean", "mean square", "sample variance"), enumerate_trials(query, key, *sizes)):
            print("enumeration", sizes, name, *values)
    for key, sizes in ((three_points, (2, 2, 2)), (three_points, (1, 1, 3)), (shifted, (2, 3, 2))):
        print("enumeration", sizes, "kurtosis", *enumerate_kurtosis(three_points, key, *sizes))
    x, y = (0, 1, 3, 9, 2), (5, -1, 0, 2, 2)
    n = len(x)
    second, fourth, gx, gy = permutation_correlation(x, y)
    formula = F(3, n * n - 1) + F((n - 2) * (n - 3), n * (n + 1) * (n - 1) ** 3) * gx * gy
    print("permutation correlation:", second, F(1, n - 1), fourth, formula)
