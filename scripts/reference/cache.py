#!/usr/bin/env python3
"""Causal attention with grouped heads, rotary positions and a window, by torch in float64, for src/attention/cache.

    python3 scripts/reference/cache.py > tests/golden/cache.csv

Rotary embedding as Hugging Face transformers writes it (rotate_half, half-split, base 10000, inv_freq in float64), keys and values
repeated as its repeat_kv does, then torch.nn.functional.scaled_dot_product_attention with a boolean mask. Input j (counted
along the rows of tokens x heads x width) is ((7 j^2 + 3 j + shift) mod 23 - 9)/8 with shift 2 for q, 5 for k, 11 for v.

Columns: heads, kv_heads, d_k, d_v, tokens, window (0: none), rotary (0 or 1), index (into tokens x heads x d_v), value.
"""
import csv
import sys

import torch

out = csv.writer(sys.stdout, lineterminator="\n")
out.writerow("heads kv_heads d_k d_v tokens window rotary index value".split())


def numbers(shift, *shape):
    count = 1
    for size in shape:
        count *= size
    return torch.tensor([((7 * j * j + 3 * j + shift) % 23 - 9) / 8 for j in range(count)], dtype=torch.float64).reshape(shape)


def rotate_half(x):
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)


def rotary(x):
    dim = x.shape[-1]
    inv_freq = 1.0 / (10000.0 ** (torch.arange(0, dim, 2, dtype=torch.float64) / dim))
    freqs = torch.outer(torch.arange(x.shape[-2], dtype=torch.float64), inv_freq)
    emb = torch.cat((freqs, freqs), dim=-1)
    return x * emb.cos() + rotate_half(x) * emb.sin()


for heads, kv_heads, d_k, d_v, tokens, window, turn in [
    (6, 3, 4, 5, 7, 0, 1), (6, 2, 4, 5, 11, 3, 1), (3, 1, 10, 7, 5, 0, 0), (2, 2, 6, 3, 13, 5, 1),
]:
    q = numbers(2, tokens, heads, d_k).transpose(0, 1)
    k = numbers(5, tokens, kv_heads, d_k).transpose(0, 1)
    v = numbers(11, tokens, kv_heads, d_v).transpose(0, 1)
    if turn:
        q, k = rotary(q), rotary(k)
    k, v = (x.repeat_interleave(heads // kv_heads, dim=0) for x in (k, v))
    i, j = torch.arange(tokens)[:, None], torch.arange(tokens)[None, :]
    mask = (j <= i) & ((i - j < window) if window else True)
    o = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    for index, value in enumerate(o.transpose(0, 1).reshape(-1).tolist()):
        out.writerow([heads, kv_heads, d_k, d_v, tokens, window, turn, index, repr(value)])
