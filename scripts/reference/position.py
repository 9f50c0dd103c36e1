#!/usr/bin/env python3
"""Position encodings by other routes than the Rust code takes.

    python3 scripts/reference/position.py > tests/golden/position.csv

needs mpmath and torch. Columns: kind, width, base, position, column, input, value.

sinusoidal    mpmath with 50 digits, from the formula of Vaswani et al. 2017, section 3.5; no input
half-split    torch, float64: rotary embedding as Hugging Face transformers writes it (LlamaRotaryEmbedding, rotate_half and
              apply_rotary_pos_emb; transcribed, inv_freq in float64)
interleaved   torch, float64: complex multiplication as in the published Llama (precompute_freqs_cis and apply_rotary_emb)
score         mpmath: (R_p q).(R_{p+k} k') of the interleaved layout for position = k and any p; column 0, input empty; q and
              k' are the inputs below and the same reversed
"""
import csv
import sys

import mpmath as mp
import torch

mp.mp.dps = 50
out = csv.writer(sys.stdout, lineterminator="\n")
out.writerow("kind width base position column input value".split())


def inputs(width):
    # Skewed, of both signs, none alike.
    return [((7 * j * j + 3 * j + 2) % 23 - 9) / 8 for j in range(width)]


for width, base, positions in [(6, 10000, [0, 1, 17, 15962, 10**6]), (10, 500000, [3, 131071, 2**40 + 7])]:
    for position in positions:
        for column in range(width):
            angle = position / mp.power(base, mp.mpf(2 * (column // 2)) / width)
            value = mp.cos(angle) if column % 2 else mp.sin(angle)
            out.writerow(["sinusoidal", width, base, position, column, "", mp.nstr(value, 20)])


def half_split(x, position, base):
    dim = x.shape[-1]
    inv_freq = 1.0 / (base ** (torch.arange(0, dim, 2, dtype=torch.float64) / dim))
    emb = torch.cat((inv_freq * position, inv_freq * position))
    x1, x2 = x[..., : dim // 2], x[..., dim // 2:]
    return x * emb.cos() + torch.cat((-x2, x1), dim=-1) * emb.sin()


def interleaved(x, position, base):
    dim = x.shape[-1]
    freqs = 1.0 / (base ** (torch.arange(0, dim, 2).double() / dim))
    turns = torch.polar(torch.ones_like(freqs), freqs * position)
    pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turns).flatten(-2)


for width, base in [(6, 10000.0), (10, 500000.0)]:
    for position in [0, 1, 5, 257, 15962]:
        x = torch.tensor(inputs(width), dtype=torch.float64)
        for kind, rotate in [("half-split", half_split), ("interleaved", interleaved)]:
            for column, value in enumerate(rotate(x, position, base).tolist()):
                out.writerow([kind, width, int(base), position, column, inputs(width)[column], repr(value)])

for width, base in [(6, 10000), (10, 500000)]:
    q, k = inputs(width), inputs(width)[::-1]
    for offset in [0, 1, 13, 257]:
        score = mp.mpf(0)
        for pair in range(width // 2):
            angle = offset / mp.power(base, mp.mpf(2 * pair) / width)
            a, b, c, d = (mp.mpf(v) for v in (q[2 * pair], q[2 * pair + 1], k[2 * pair], k[2 * pair + 1]))
            score += a * (c * mp.cos(angle) - d * mp.sin(angle)) + b * (c * mp.sin(angle) + d * mp.cos(angle))
        out.writerow(["score", width, base, offset, 0, "", mp.nstr(score, 20)])
