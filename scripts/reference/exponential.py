#!/usr/bin/env python3
"""Coefficients of the exponential function in src/attention/kernel/exponential.rs.

e^r = 1 + r + r^2 q(r) for |r| <= ln 2 / 2; q interpolates at Chebyshev nodes in 60-digit arithmetic and is then
rounded to the precision that uses it. Needs mpmath, numpy.
"""
import mpmath as mp
import numpy as np

from polynomials import fit

mp.mp.dps = 60
# A little more than ln 2 / 2: the exponent is rounded from an inexact product.
HALF = mp.log(2) / 2 * mp.mpf("1.0001")


def quotient(r):
    """(e^r - 1 - r) / r^2; its limit at the node next to 0."""
    return (mp.expm1(r) - r) / r**2 if abs(r) > mp.mpf("1e-20") else mp.mpf(1) / 2


if __name__ == "__main__":
    for kind, count in ((np.float32, 5), (np.float64, 10)):
        # Decimal text is rounded once, to nearest, by both numpy and rustc.
        coefficients = [kind(mp.nstr(value, 40)) for value in fit(quotient, -HALF, HALF, count)]
        exact = [mp.mpf(float(value)) for value in coefficients][::-1]
        points = [HALF * k / 2000 for k in range(-2000, 2001)]
        worst = max(abs((1 + r + r * r * mp.polyval(exact, r)) / mp.exp(r) - 1) for r in points)
        print(f"{kind.__name__}: worst relative error 2^{float(mp.log(worst, 2)):.1f}")
        for value in coefficients:
            print(f"    {np.format_float_scientific(value, unique=True)},")
