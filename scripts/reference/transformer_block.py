#!/usr/bin/env python3
"""Golden values of a transformer block from PyTorch: tests/golden/transformer_block.csv.

    python3 scripts/reference/transformer_block.py > tests/golden/transformer_block.csv

One line a matrix entry: case,name,row,column,value. Post- and pre-norm are torch.nn.TransformerEncoderLayer itself (ReLU,
no dropout, random gains and shifts); the cases without norm, residual or MLP are its functional parts put together here.
`change` is the derivative along `direction` by torch.func.jvp (forward-mode automatic differentiation).
Weights are stored for tokens as rows multiplied from the left, one matrix a head. float64, fixed seed, torch 2.x.
"""
import torch
from torch.nn.functional import layer_norm, linear, multi_head_attention_forward, relu

torch.manual_seed(20160721)
torch.set_default_dtype(torch.float64)

N, D, HEADS, D_FF = 5, 6, 2, 7


def emit(case, name, matrix):
    matrix = matrix.detach()
    if matrix.ndim == 1:
        matrix = matrix[None, :]
    for i, row in enumerate(matrix.tolist()):
        for j, value in enumerate(row):
            print(f"{case},{name},{i},{j},{value!r}")


layer = torch.nn.TransformerEncoderLayer(D, HEADS, D_FF, dropout=0.0, activation=relu, layer_norm_eps=1e-3, batch_first=True)
with torch.no_grad():
    for name, parameter in layer.named_parameters():
        parameter.copy_(torch.randn_like(parameter) / parameter.shape[-1]**0.5)
        if "norm" in name and name.endswith("weight"):
            parameter.add_(1.0)
x, direction = torch.randn(N, D), torch.randn(N, D)


def attend(tokens):
    a = layer.self_attn
    rows = tokens[:, None, :]
    out, _ = multi_head_attention_forward(
        rows, rows, rows, D, HEADS, a.in_proj_weight, a.in_proj_bias, None, None, False, 0.0,
        a.out_proj.weight, a.out_proj.bias, training=False, need_weights=False)
    return out[:, 0, :]


def mlp(tokens):
    return linear(relu(linear(tokens, layer.linear1.weight, layer.linear1.bias)), layer.linear2.weight, layer.linear2.bias)


def norm(which, tokens):
    return layer_norm(tokens, (D,), which.weight, which.bias, which.eps)


def module(tokens):
    """Post- or pre-norm by layer.norm_first."""
    return layer(tokens[None])[0]


def bare(tokens):
    between = attend(tokens) + tokens
    return mlp(between) + between


def post_without_residual(tokens):
    return norm(layer.norm2, mlp(norm(layer.norm1, attend(tokens))))


print("case,name,row,column,value")
for part, symbol in enumerate("qkv"):
    width = D // HEADS
    for head in range(HEADS):
        rows = slice(part * D + head * width, part * D + (head + 1) * width)
        emit("weights", f"w_{symbol}{head + 1}", layer.self_attn.in_proj_weight[rows].T)
        emit("weights", f"b_{symbol}{head + 1}", layer.self_attn.in_proj_bias[rows])
emit("weights", "w_o", layer.self_attn.out_proj.weight.T)
emit("weights", "b_o", layer.self_attn.out_proj.bias)
emit("weights", "w_1", layer.linear1.weight.T)
emit("weights", "b_1", layer.linear1.bias)
emit("weights", "w_2", layer.linear2.weight.T)
emit("weights", "b_2", layer.linear2.bias)
for index, which in ((1, layer.norm1), (2, layer.norm2)):
    emit("weights", f"gain_{index}", which.weight)
    emit("weights", f"shift_{index}", which.bias)
emit("weights", "x", x)
emit("weights", "direction", direction)
layer.train()  # the plain path: evaluation mode may take a fused one without derivatives
cases = {
    "post": module,
    "pre": module,
    "bare": bare,
    "post_without_residual": post_without_residual,
    "attention_alone": attend,
}
for case, function in cases.items():
    layer.norm_first = case == "pre"
    # The other implementations of attention have no forward-mode derivative.
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        output, change = torch.func.jvp(function, (x,), (direction,))
    emit(case, "output", output)
    emit(case, "change", change)
