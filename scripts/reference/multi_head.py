#!/usr/bin/env python3
"""Golden values of multi-head attention from PyTorch: tests/golden/multi_head.csv.

    python3 scripts/reference/multi_head.py > tests/golden/multi_head.csv

One line a matrix entry: case,name,row,column,value. Weights are stored as this crate has them, one matrix a head that a
token's row is multiplied with from the left (PyTorch's in_proj_weight is their transpose, heads below each other).

* self, cross: torch.nn.MultiheadAttention itself, with biases; cross has a boolean mask.
* grouped: h_kv < h and d_v ≠ d_k, which nn.MultiheadAttention has not: torch.nn.functional.scaled_dot_product_attention
  with the keys and values of a group repeated.
Everything in float64 with a fixed seed; torch 2.x.
"""
import torch

torch.manual_seed(20171206)
torch.set_default_dtype(torch.float64)


def emit(case, name, matrix):
    matrix = matrix.detach()
    if matrix.ndim == 1:
        matrix = matrix[None, :]
    for i, row in enumerate(matrix.tolist()):
        for j, value in enumerate(row):
            print(f"{case},{name},{i},{j},{value!r}")


def module_case(case, d_model, heads, n, m, mask):
    layer = torch.nn.MultiheadAttention(d_model, heads, bias=True, batch_first=True)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.randn_like(parameter) / d_model**0.5)
    x = torch.randn(n, d_model)
    y = x if m is None else torch.randn(m, d_model)
    # PyTorch's boolean mask is True where a key is hidden.
    hidden = None if mask is None else ~mask
    output, weights = layer(x[None], y[None], y[None], attn_mask=hidden, average_attn_weights=False)
    width = d_model // heads
    emit(case, "x", x)
    if m is not None:
        emit(case, "y", y)
    if mask is not None:
        emit(case, "visible", mask.double())
    for part, symbol in enumerate("qkv"):
        block = layer.in_proj_weight[part * d_model:(part + 1) * d_model]
        bias = layer.in_proj_bias[part * d_model:(part + 1) * d_model]
        for head in range(heads):
            rows = slice(head * width, (head + 1) * width)
            emit(case, f"w_{symbol}{head + 1}", block[rows].T)
            emit(case, f"b_{symbol}{head + 1}", bias[rows])
    emit(case, "w_o", layer.out_proj.weight.T)
    emit(case, "b_o", layer.out_proj.bias)
    for head in range(heads):
        emit(case, f"p{head + 1}", weights[0, head])
    emit(case, "output", output[0])


def grouped_case(case, d_model, heads, key_heads, d_k, d_v, n):
    x = torch.randn(n, d_model)
    w_q = torch.randn(heads, d_model, d_k) / d_model**0.5
    w_k = torch.randn(key_heads, d_model, d_k) / d_model**0.5
    w_v = torch.randn(key_heads, d_model, d_v) / d_model**0.5
    w_o = torch.randn(heads * d_v, d_model) / (heads * d_v)**0.5
    q, k, v = x @ w_q, x @ w_k, x @ w_v
    group = heads // key_heads
    k, v = k.repeat_interleave(group, 0), v.repeat_interleave(group, 0)
    attended = torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)[0]
    emit(case, "x", x)
    for name, matrices in (("w_q", w_q), ("w_k", w_k), ("w_v", w_v)):
        for head, matrix in enumerate(matrices):
            emit(case, f"{name}{head + 1}", matrix)
    emit(case, "w_o", w_o)
    emit(case, "output", attended.transpose(0, 1).reshape(n, -1) @ w_o)


print("case,name,row,column,value")
module_case("self", d_model=6, heads=2, n=5, m=None, mask=None)
mask = torch.rand(5, 7) < 0.6
mask[:, 3] = True
module_case("cross", d_model=6, heads=3, n=5, m=7, mask=mask)
grouped_case("grouped", d_model=11, heads=4, key_heads=2, d_k=3, d_v=5, n=7)
