#!/usr/bin/env python3
# /// script
# requires-python = ">=3.10"
# dependencies = ["numpy", "torch"]
# ///
"""torch.nn.MultiheadAttention with identity projections on the CPU, with its weights: its masks, its split and merge of heads.

    python3 torch_mha_adapter.py DIR DIR/out                  training mode: the path written in Python
    python3 torch_mha_adapter.py --fast DIR DIR/out           inference mode: the fused path, where PyTorch takes it

Its boolean masks hide where true, so they are given inverted. It has no scale, no grouped heads, and values as wide as keys.
"""
import torch

from probe_io import Unsupported, answer_cases, arguments, bfloat16

TYPES = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


def tensor(case, name):
    made = torch.from_numpy(case[name])
    return made.to(TYPES[case.dtype]) if made.is_floating_point() else made


def array(made):
    made = made.detach()
    return bfloat16(made.float().numpy()) if made.dtype == torch.bfloat16 else made.numpy()


def merged(heads):
    """(batch, head, token, column) to (batch, token, all columns)."""
    return heads.transpose(1, 2).flatten(2)


def attend(case, fast):
    case.offers(causal=["either", "top-left"], mask=["boolean", "additive"], padding=True, empty_rows=True, gradients=not fast)
    q, k, v = (tensor(case, name).requires_grad_(bool(case.get("gradients"))) for name in "qkv")
    batch, heads, n, d = q.shape
    m = k.shape[2]
    if v.shape[-1] != d:
        raise Unsupported("values as wide as keys only")
    layer = torch.nn.MultiheadAttention(heads * d, heads, bias=False, batch_first=True, dtype=q.dtype)
    with torch.no_grad():
        layer.in_proj_weight.copy_(torch.eye(heads * d).repeat(3, 1))
        layer.out_proj.weight.copy_(torch.eye(heads * d))
    layer.train(not fast)
    options = {}
    if case.get("padding"):
        options["key_padding_mask"] = torch.arange(m) >= tensor(case, "lengths")[:, None]
    if case.get("mask"):
        mask = tensor(case, "mask")
        mask = mask if mask.is_floating_point() else ~mask
        options["attn_mask"] = mask.expand(batch, heads, n, m).flatten(0, 1)
    if case.get("causal"):
        if "attn_mask" in options:
            raise Unsupported("is_causal is a hint about the one attn_mask")
        options |= {"attn_mask": torch.nn.Transformer.generate_square_subsequent_mask(n, dtype=q.dtype) if n == m else None, "is_causal": True}
        if n != m:
            raise Unsupported("generate_square_subsequent_mask is square")
    with torch.set_grad_enabled(not fast):
        o, weights = layer(merged(q), merged(k), merged(v), need_weights=not fast, average_attn_weights=False, **options)
    o = o.unflatten(2, (heads, d)).transpose(1, 2)
    answer = {"o": o} if weights is None else {"o": o, "weights": weights}
    if case.get("gradients"):
        o.backward(tensor(case, "do"))
        answer |= {"dq": q.grad, "dk": k.grad, "dv": v.grad}
    return {name: array(made) for name, made in answer.items()}


def main():
    parser = arguments()
    parser.description = "torch.nn.MultiheadAttention with identity projections"
    parser.add_argument("--fast", action="store_true", help="inference mode, without weights")
    parsed = parser.parse_args()
    answer_cases(lambda case: attend(case, parsed.fast), parsed, implementation="torch MultiheadAttention", version=torch.__version__, device="cpu",
                  notes="inference mode" if parsed.fast else "training mode, dropout 0")


if __name__ == "__main__":
    main()
