#!/usr/bin/env python3
"""The draws of src/sampling, from the published formulas, in Python: prints every number its tests pin.

Written from Salmon et al. (2011), Box and Muller (1958), Doornik (2005), Marsaglia and Tsang (2000) and the address
layout in the module docs, not from the Rust code. Two columns of evidence:

* values: the exact transform of the words, in 40-digit arithmetic (mpmath);
* hashes: FNV-1a (64 bits) over the little-endian bytes of the first 4099 elements, replayed in numpy's IEEE
  arithmetic with the polynomials of polynomials.py: what every machine must draw, bit for bit.

With --check, also compares Threefry with randomgen's C implementation (pip install randomgen).
"""
import sys

import mpmath as mp
import numpy as np

from polynomials import rounded

mp.mp.dps = 40
MASK32, MASK64 = 2**32 - 1, 2**64 - 1
LANES, COUNT = 16, 4099


def threefry(counter, key, rounds=20):
    """Threefry4x32; counter words may be numpy uint64 arrays holding 32-bit numbers."""
    rotations = [(10, 26), (11, 21), (13, 27), (23, 5), (6, 20), (17, 11), (25, 10), (18, 20)]
    schedule = list(key) + [0x1BD11BDA ^ key[0] ^ key[1] ^ key[2] ^ key[3]]
    x = [(c + k) & MASK32 for c, k in zip(counter, schedule)]
    for number in range(rounds):
        left, right = rotations[number % 8]
        pairs = [(0, 1, left), (2, 3, right)] if number % 2 == 0 else [(0, 3, left), (2, 1, right)]
        for a, b, r in pairs:
            x[a] = (x[a] + x[b]) & MASK32
            x[b] = (((x[b] << r) | (x[b] >> (32 - r))) & MASK32) ^ x[a]
        if number % 4 == 3:
            s = number // 4 + 1
            x = [(x[i] + schedule[(s + i) % 5]) & MASK32 for i in range(4)]
            x[3] = (x[3] + s) & MASK32
    return x


def splitmix(state):
    """The output that SplitMix64 gives after its state has become `state`."""
    z = state
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK64
    return z ^ (z >> 31)


def parameter_point(parts):
    state = len(parts)
    for part in parts:
        state = splitmix((state + 0x9E3779B97F4A7C15) & MASK64) ^ part
    return splitmix((state + 0x9E3779B97F4A7C15) & MASK64)


# The address that the tests use.
SEED, POINT, TRIAL, MATRIX = 0x0123456789ABCDEF, parameter_point([64, 257]), 3, 1
KEY = [SEED & MASK32, SEED >> 32, POINT & MASK32, POINT >> 32]


def addressed(per_block):
    """For elements 0 .. COUNT-1: which output of its block each one is, and that block's words."""
    element = np.arange(COUNT, dtype=np.uint64)
    group, inside = element // (LANES * per_block), element % (LANES * per_block)
    output, lane = inside // LANES, inside % LANES
    block = group * LANES + lane
    zero = np.zeros_like(block)
    return output, threefry([block & MASK32, block >> 32, zero + TRIAL, zero + MATRIX], KEY)


def select(output, choices):
    return np.choose(output.astype(np.int64), choices)


# Exact values.


def exact_normal(bits):
    output, words = addressed(128 // bits)
    values = []
    for k in range(8):
        k = k * 17  # walks through lanes and outputs
        o, w = int(output[k]), [int(word[k]) for word in words]
        if bits == 32:
            radius, angle = (w[0], w[1]) if o < 2 else (w[2], w[3])
        else:
            radius, angle = w[0] << 32 | w[1], w[2] << 32 | w[3]
        u = (radius + mp.mpf(1) / 2) / mp.mpf(2) ** bits
        low = angle & (2 ** (bits - 2) - 1)
        signed = low - 2 ** (bits - 2) if low >= 2 ** (bits - 3) else low
        theta = mp.pi / 4 * (signed + mp.mpf(1) / 2) / mp.mpf(2) ** (bits - 3)
        cosine = mp.cos(theta) * (-1 if angle >> (bits - 1) else 1)
        pair = (cosine, mp.sin(theta))
        if angle >> (bits - 2) & 1:
            pair = pair[::-1]
        values.append(mp.sqrt(-2 * mp.log(u)) * pair[o % 2])
    return values


def exact_word(bits, k):
    output, words = addressed(128 // bits)
    o, w = int(output[k]), [int(word[k]) for word in words]
    return w[o] if bits == 32 else w[2 * o] << 32 | w[2 * o + 1]


def exact_uniform(bits):
    values = []
    for k in range(0, 136, 17):
        number = exact_word(bits, k) | (1 if bits == 32 else 0)
        signed = number - 2**bits if number >= 2 ** (bits - 1) else number
        values.append(mp.sqrt(3) * (signed + (0 if bits == 32 else mp.mpf(1) / 2)) / 2 ** (bits - 1))
    return values


def exact_laplace(bits):
    values = []
    for k in range(0, 136, 17):
        number = exact_word(bits, k)
        u = ((number & (2 ** (bits - 1) - 1)) + mp.mpf(1) / 2) / mp.mpf(2) ** (bits - 1)
        values.append(-mp.log(u) / mp.sqrt(2) * (-1 if number >> (bits - 1) else 1))
    return values


def signs():
    output, words = addressed(128)
    word = select(output // 32, words)
    return 1 - 2 * ((word >> (output % 32)) & 1).astype(np.int64)


# Student's t as rand_distr 0.6 draws it: ziggurat normals (Doornik 2005, 256 layers) and a gamma variate.


def ziggurat_table():
    r = mp.mpf("3.654152885361008796")
    density = lambda x: mp.exp(-x * x / 2)
    # r density(r) + the tail, to the twelve digits of Doornik's paper, from which rand_distr's tables were made.
    area = mp.mpf("0.00492867323399")
    assert abs(area - r * density(r) - mp.sqrt(mp.pi / 2) * mp.erfc(r / mp.sqrt(2))) < 1e-13
    x = [area / density(r), r]
    while len(x) < 256:
        x.append(mp.sqrt(-2 * mp.log(area / x[-1] + density(x[-1]))))
    x.append(mp.mpf(0))
    return [float(v) for v in x], [float(density(v)) for v in x]


ABSCISSAE, DENSITIES = ziggurat_table()


def row_words(row):
    block = 2**63 | row << 32
    while True:
        yield from threefry([block & MASK32, block >> 32, TRIAL, MATRIX], KEY)
        block += 1


class Row:
    def __init__(self, row):
        self.words = row_words(row)

    def u64(self):
        low = next(self.words)
        return low | next(self.words) << 32

    def open01(self):
        return ((self.u64() >> 12) + 0.5) / 2.0**52

    def normal(self):
        while True:
            bits = self.u64()
            layer, u = bits & 255, (bits >> 12) / 2.0**51 - 1.0
            x = u * ABSCISSAE[layer]
            if abs(x) < ABSCISSAE[layer + 1]:
                return x
            if layer == 0:
                while True:
                    x = np.log(self.open01()) / ABSCISSAE[1]
                    y = np.log(self.open01())
                    if -2.0 * y >= x * x:
                        return x - ABSCISSAE[1] if u < 0 else ABSCISSAE[1] - x
            f, g = DENSITIES[layer + 1], DENSITIES[layer]
            if f + (g - f) * ((self.u64() >> 11) / 2.0**53) < np.exp(-x * x / 2):
                return x

    def student_t(self, nu):
        normal = self.normal()
        d = nu / 2 - 1 / 3
        while True:
            x = self.normal()
            v = 1 + x / np.sqrt(9 * d)
            if v <= 0:
                continue
            v, u = v**3, self.open01()
            if u < 1 - 0.0331 * x**4 or np.log(u) < x * x / 2 + d * (1 - v + np.log(v)):
                return normal * np.sqrt(nu / (2 * d * v)) / np.sqrt(nu / (nu - 2))


# Bit-for-bit replay in IEEE arithmetic.


def horner(x, coefficients):
    value = coefficients[-1]
    for c in coefficients[-2::-1]:
        value = c + x * value
    return value


def log32(x):
    f4 = np.float32
    bits = x.view(np.uint32)
    exponent = (bits - f4(np.sqrt(0.5)).view(np.uint32)).view(np.int32) >> 23
    f = (bits - (exponent.view(np.uint32) << np.uint32(23))).view(np.float32) - f4(1)
    e = exponent.astype(np.float32)
    square = f * f
    small = square * (f * horner(f, rounded("LOGARITHM", "f32")) - f4(0.5)) + e * f4(-2.12194440e-4)
    return e * f4(0.693359375) + (f + small)


def log64(x):
    bits = x.view(np.uint64)
    exponent = (bits - np.float64(np.sqrt(0.5)).view(np.uint64)).view(np.int64) >> 52
    f = (bits - (exponent.view(np.uint64) << np.uint64(52))).view(np.float64) - 1.0
    e = exponent.astype(np.float64)
    s = f / (2.0 + f)
    z = s * s
    r = z * horner(z, rounded("LOGARITHM", "f64"))
    half_square = 0.5 * f * f
    high, low = np.array([0x3FE62E42FEE00000, 0x3DEA39EF35793C76], dtype=np.uint64).view(np.float64)
    return e * high - ((half_square - (s * (half_square + r) + e * low)) - f)


def wide(high, low):
    """high 2^32 + low + 1/2, rounded once."""
    return high.astype(np.float64) * 2.0**32 + (low.astype(np.float64) + 0.5)


def replay_normal(bits):
    output, words = addressed(128 // bits)
    kind = np.float32 if bits == 32 else np.float64
    if bits == 32:
        radius, angle = (select(output // 2, [words[i], words[i + 2]]) for i in (0, 1))
        u = (radius.astype(kind) + kind(0.5)) * kind(2.0**-32)
        r = np.sqrt(kind(-2) * log32(u))
        shifted = ((angle << 2 | 2) & MASK32).astype(np.uint32).view(np.int32)
        t = shifted.astype(kind) * kind(2.0**-31)
    else:
        angle = words[2]
        u = wide(words[0], words[1]) * 2.0**-64
        r = np.sqrt(-2.0 * log64(u))
        high = ((angle << 2) & MASK32).astype(np.uint32).view(np.int32) >> 2
        t = wide(high, words[3]) * 2.0**-61
    z = t * t
    sine = t * horner(z, rounded("SINE", f"f{bits}"))
    cosine = horner(z, [kind(1)] + rounded("COSINE", f"f{bits}"))
    cosine = np.where(angle >> 31, -cosine, cosine)
    exchanged = ((angle >> 30) & 1) ^ (output % 2)
    return r * np.where(exchanged, sine, cosine)


def replay_words(bits):
    output, words = addressed(128 // bits)
    if bits == 32:
        return [select(output, words)]
    return [select(output, [words[0], words[2]]), select(output, [words[1], words[3]])]


def replay_uniform(bits):
    words = replay_words(bits)
    if bits == 32:
        number = (words[0] | 1).astype(np.uint32).view(np.int32).astype(np.float32)
        return number * (np.float32(1.7320508) * np.float32(2.0**-31))
    number = wide(words[0].astype(np.uint32).view(np.int32), words[1])
    return number * (1.7320508075688772 * 2.0**-63)


def replay_laplace(bits):
    words = replay_words(bits)
    cut = words[0] & 0x7FFFFFFF
    if bits == 32:
        u = (cut.astype(np.float32) + np.float32(0.5)) * np.float32(2.0**-31)
        size = log32(u) * -np.float32(np.sqrt(0.5))
    else:
        size = log64(wide(cut, words[1]) * 2.0**-63) * -np.sqrt(0.5)
    return np.where(words[0] >> 31, -size, size)


def fnv(array):
    value = 0xCBF29CE484222325
    for byte in array.tobytes():
        value = ((value ^ byte) * 0x100000001B3) & MASK64
    return value


def show(title, numbers, digits):
    print(title)
    print("    " + ",\n    ".join(mp.nstr(mp.mpf(n), digits) for n in numbers) + ",")


if __name__ == "__main__":
    pi = [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344, 0xA4093822, 0x299F31D0, 0x082EFA98, 0xEC4E6C89]
    cases = [([0] * 4, [0] * 4), ([MASK32] * 4, [MASK32] * 4), (pi[:4], pi[4:])]
    for counter, key in cases:
        print("threefry4x32-20", " ".join(f"{w:08x}" for w in threefry(counter, key)))
        if "--check" in sys.argv:
            from randomgen import ThreeFry

            join = lambda words: sum(w << 32 * i for i, w in enumerate(words))
            # randomgen counts up before it draws.
            theirs = ThreeFry(counter=(join(counter) - 1) % 2**128, key=join(key), number=4, width=32)
            assert [int(w) for w in theirs.random_raw(4)] == threefry(counter, key)
    for parts in ([], [0], [0, 0], [64, 257], [257, 64]):
        print(f"parameter_point({parts}) = 0x{parameter_point(parts):016x}")
    for bits in (32, 64):
        digits = 12 if bits == 32 else 20
        show(f"normal f{bits}, elements 0, 17, ..., 119", exact_normal(bits), digits)
        show(f"uniform f{bits}, same elements", exact_uniform(bits), digits)
        show(f"laplace f{bits}, same elements", exact_laplace(bits), digits)
        for name, values in [
            ("normal", replay_normal(bits)),
            ("uniform", replay_uniform(bits)),
            ("rademacher", signs().astype(f"<f{bits // 8}")),
            ("laplace", replay_laplace(bits)),
        ]:
            assert values.dtype.itemsize == bits // 8
            print(f"{name} f{bits}: hash 0x{fnv(values):016x}")
    print("rademacher, elements 0 to 31:", "".join("+" if s > 0 else "-" for s in signs()[:32]))
    for row in (0, 5):
        source = Row(row)
        show(f"student-t:5, row {row}, elements 0 to 7", [source.student_t(5.0) for _ in range(8)], 17)
