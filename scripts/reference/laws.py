"""Tail probabilities of the laws in src/statistics/law.rs, by mpmath at 25 to 90 digits.

Usage: python scripts/reference/laws.py > tests/golden/laws.csv (some minutes; Bessel functions of integer order are slow)

Columns: law, parameter (skewness or degrees; empty for the normal law), z, survival P(Z > z), cumulative P(Z <= z).
parameter and z are the shortest decimals of the f64 used; the probabilities belong to exactly those doubles. Each law is
computed from a definition other than the program's: normal by erfc, gamma by the incomplete gamma function, Student
by the incomplete beta function, the product-normal by its Bessel-K density (variance-gamma) or, for even D, a finite sum, not by mixing normals.
"""
import multiprocessing
import sys
import mpmath as mp

mp.mp.dps = 50


def normal(z):
    return mp.erfc(z / mp.sqrt(2)) / 2, mp.erfc(-z / mp.sqrt(2)) / 2


def gamma(skewness, z):
    a = 4 / skewness**2
    x = a + z * mp.sqrt(a)
    if x <= 0:
        return mp.mpf(1), mp.mpf(0)
    if a < 3000:
        return mp.gammainc(a, x, mp.inf, regularized=True), mp.gammainc(a, 0, x, regularized=True)
    # The large shapes by direct integration of the density in extra precision.
    with mp.workdps(90):
        a = 4 / skewness**2
        constant = a * mp.log(a) - a - mp.loggamma(a) + mp.log(a) / 2 - mp.log(a)
        def density(t):
            m = t / mp.sqrt(a)
            if m <= -1:
                return mp.mpf(0)
            return mp.exp(constant - a * (m - mp.log1p(m)) - mp.log1p(m))
        # Scaled by the density at z: the quadrature stops on an absolute error. Panels grow from the local length.
        scale = density(z)
        ratio = lambda t: density(t) / scale
        steps = [mp.mpf(2) ** k / (1 + abs(z)) for k in range(-1, 12)]
        steps = [0] + [step for step in steps if step < 40] + [40]
        low = -mp.sqrt(a)
        up = mp.quad(ratio, [z + step for step in steps]) * scale
        down = -mp.quad(ratio, [max(z - step, low) for step in steps if z - step > low - 1]) * scale
        return (up, 1 - up) if up < down else (1 - down, down)


def even_product_normal(k, z):
    # D = 2k: W is the difference of two Gamma(k, 1) variables (a sum of k Laplace variables), so that
    # P(W > w) = e^-w sum_{j<k} C(k-1+j, j) 2^(-k-j) sum_{l<k-j} w^l/l!, all terms positive.
    w = z * mp.sqrt(2 * k)
    partial, term = [mp.mpf(0)], mp.mpf(1)
    for l in range(k):
        partial.append(partial[-1] + term)
        term = term * w / (l + 1)
    weight, total = mp.mpf(2) ** -k, mp.mpf(0)
    for j in range(k):
        total += weight * partial[k - j]
        weight = weight * (k + j) / (j + 1) / 2
    upper = mp.exp(-w) * total
    return upper, 1 - upper


def product_normal(degrees, z):
    # Density of W = sum of D products: |w|^((D-1)/2) K_{(D-1)/2}(|w|) / (sqrt(pi) 2^((D-1)/2) Gamma(D/2)).
    if degrees % 2 == 0:
        return even_product_normal(int(degrees) // 2, z)
    order = (degrees - 1) / 2
    norm = mp.sqrt(mp.pi) * mp.mpf(2) ** order * mp.gamma(degrees / 2)
    with mp.workdps(25):
        w = z * mp.sqrt(degrees)
        scale = w**order * mp.besselk(order, w)
        ratio = lambda x: x**order * mp.besselk(order, x) / scale
        width = max(mp.mpf(1), mp.sqrt(degrees)) / 2
        upper = mp.quad(ratio, [w + width * k for k in [0, 1, 2, 4, 8, 16, 32, 64, 128]]) * scale / norm
        return upper, 1 - upper


def student(degrees, z):
    if degrees > 1000:
        # The hypergeometric series converges too slowly: integrate the density, scaled by its value at |z|.
        size = abs(z)
        exponent = lambda t: -(degrees + 1) / 2 * mp.log1p(t * t / degrees)
        ratio = lambda t: mp.exp(exponent(t) - exponent(size))
        steps = [0] + [mp.mpf(2) ** k / (1 + size) for k in range(-1, 12)]
        integral = mp.quad(ratio, [size + step for step in steps])
        front = mp.exp(mp.loggamma((degrees + 1) / 2) - mp.loggamma(degrees / 2) + exponent(size))
        tail = integral * front / mp.sqrt(degrees * mp.pi)
        return (tail, 1 - tail) if z >= 0 else (1 - tail, tail)
    x = degrees / (degrees + z * z)
    tail = mp.betainc(degrees / 2, mp.mpf(1) / 2, 0, x, regularized=True) / 2
    return (tail, 1 - tail) if z >= 0 else (1 - tail, tail)


LAWS = {"normal": lambda _, z: normal(z), "gamma": gamma, "product_normal": product_normal, "student": student}


def cases():
    """(law, parameter, z, smallest tail probability worth a row)."""
    for z in [0.01, 0.3, 0.7, 1.0, 1.96, 2.575, 3.7, 4.753, 5.9, 7.034, 7.941, 12.5, 37.0, -0.4, -1.96, -6.1]:
        yield "normal", None, z, 0
    for skewness in [1e-12, 1e-6, 0.013, 0.1, 0.199, 0.201, 0.5, 1.0, 1.7, 2.0, 2.83, 4.0, 20.0]:
        for z in [-6.1, -4.4, -2.9, -1.3, -0.61, -0.35, -0.09, 0.0, 0.07, 0.4, 1.1, 2.3, 4.7, 7.9, 13.0, 29.0]:
            if z * skewness > -1.999:
                yield "gamma", skewness, z, mp.mpf(10) ** -290
    for degrees in [0.1, 0.5, 1.0, 1.7, 2.0, 3.3, 7.4, 64.0, 1000.0, 20000.0]:
        for z in [0.001, 0.2, 1.0, 2.1, 4.3, 6.7, 9.5, 14.0, 31.0]:
            yield "product_normal", degrees, z, mp.mpf(10) ** -25
    for degrees in [0.3, 1.0, 2.0, 5.0, 29.0, 163.0, 4001.0, 1e6]:
        for z in [0.001, 0.5, 1.3, 2.7, 4.9, 7.3, 11.0, 150.0, -2.2]:
            yield "student", degrees, z, mp.mpf(10) ** -200


def row(case):
    law, parameter, z, smallest = case
    pair = LAWS[law](None if parameter is None else mp.mpf(parameter), mp.mpf(z))
    shown = "" if parameter is None else repr(parameter)
    if min(pair) <= smallest:
        return ""
    return f"{law},{shown},{z!r},{mp.nstr(pair[0], 20)},{mp.nstr(pair[1], 20)}\n"


if __name__ == "__main__":
    sys.stdout.write("law,parameter,z,survival,cumulative\n")
    with multiprocessing.Pool() as pool:
        for line in pool.imap(row, cases()):
            sys.stdout.write(line)
            sys.stdout.flush()
