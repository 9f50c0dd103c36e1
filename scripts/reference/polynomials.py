#!/usr/bin/env python3
"""Coefficients of the polynomials in src/number/elementary.rs.

Each one interpolates its function at Chebyshev nodes in 60-digit arithmetic (within a few per cent of the
best possible polynomial of its degree) and is then rounded to the precision that uses it. Needs mpmath, numpy.
"""
import mpmath as mp
import numpy as np

mp.mp.dps = 60


def fit(function, low, high, count):
    """Monomial coefficients of the polynomial of degree count - 1 through count Chebyshev nodes."""
    middle, half = (mp.mpf(low) + high) / 2, (mp.mpf(high) - low) / 2
    nodes = [middle + half * mp.cos(mp.pi * (2 * k + 1) / (2 * count)) for k in range(count)]
    matrix = mp.matrix(count, count)
    for row, node in enumerate(nodes):
        for column in range(count):
            matrix[row, column] = node**column
    solution = mp.lu_solve(matrix, mp.matrix([function(node) for node in nodes]))
    return [solution[k] for k in range(count)]


def sine(z):
    """sin(pi/4 t) / t as a function of z = t^2."""
    t = mp.sqrt(z)
    return mp.sin(mp.pi / 4 * t) / t if z else mp.pi / 4


def cosine(z):
    """(cos(pi/4 t) - 1) / t^2 as a function of z = t^2."""
    return (mp.cos(mp.pi / 4 * mp.sqrt(z)) - 1) / z if z else -(mp.pi / 4) ** 2 / 2


def logarithm_direct(f):
    """(ln(1 + f) - f + f^2 / 2) / f^3."""
    return (mp.log(1 + f) - f + f * f / 2) / f**3 if f else mp.mpf(1) / 3


def logarithm_quotient(z):
    """(ln((1 + s) / (1 - s)) / s - 2) / s^2 as a function of z = s^2."""
    s = mp.sqrt(z)
    return (mp.log((1 + s) / (1 - s)) / s - 2) / z if z else mp.mpf(2) / 3


ROOT = mp.sqrt(2)
SMALLEST_QUOTIENT = ((ROOT - 1) / (ROOT + 1)) ** 2
TABLE = {
    ("SINE", "f32"): fit(sine, 0, 1, 4),
    ("COSINE", "f32"): fit(cosine, 0, 1, 4),
    ("LOGARITHM", "f32"): fit(logarithm_direct, 1 / ROOT - 1, ROOT - 1, 8),
    ("SINE", "f64"): fit(sine, 0, 1, 7),
    ("COSINE", "f64"): fit(cosine, 0, 1, 7),
    ("LOGARITHM", "f64"): fit(logarithm_quotient, 0, SMALLEST_QUOTIENT, 7),
}
KINDS = {"f32": np.float32, "f64": np.float64}


def rounded(name, precision):
    """The coefficients, lowest degree first, as numpy numbers of that precision."""
    # Decimal text is rounded once, to nearest, by both numpy and rustc.
    return [KINDS[precision](mp.nstr(value, 40)) for value in TABLE[name, precision]]


def worst_relative_error(name, precision):
    """Largest relative error of the function it serves, coefficients rounded, arithmetic exact."""
    coefficients = [mp.mpf(float(c)) for c in rounded(name, precision)]
    worst = mp.mpf(0)
    for k in range(1, 2001):
        x = mp.mpf(k) / 2000
        if name == "LOGARITHM" and precision == "f32":
            f = (1 / ROOT - 1) + x * (ROOT - 1 / ROOT)
            value = f - f * f / 2 + f**3 * mp.polyval(coefficients[::-1], f)
            truth = mp.log(1 + f)
        elif name == "LOGARITHM":
            s = mp.sqrt(SMALLEST_QUOTIENT) * x
            value = s * (2 + s * s * mp.polyval(coefficients[::-1], s * s))
            truth = mp.log((1 + s) / (1 - s))
        elif name == "SINE":
            value, truth = x * mp.polyval(coefficients[::-1], x * x), mp.sin(mp.pi / 4 * x)
        else:
            value, truth = 1 + x * x * mp.polyval(coefficients[::-1], x * x), mp.cos(mp.pi / 4 * x)
        worst = max(worst, abs(value / truth - 1))
    return worst


if __name__ == "__main__":
    for (name, precision) in TABLE:
        log2_error = float(mp.log(worst_relative_error(name, precision), 2))
        print(f"{name} {precision}: worst relative error 2^{log2_error:.1f}")
        for value in rounded(name, precision):
            print(f"    {np.format_float_scientific(value, unique=True)},")
