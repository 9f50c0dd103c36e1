#!/usr/bin/env python3
# /// script
# requires-python = ">=3.10"
# dependencies = ["numpy", "torch"]
# ///
"""torch.nn.attention.flex_attention on the CPU, not compiled, with its log-sum-exp (it has no gradients there).

    python3 torch_flex_adapter.py DIR DIR/out

Masks, windows, the soft cap and ALiBi are the functions of an index that PyTorch's documentation gives for them.
"""
import warnings

import torch
from torch.nn.attention.flex_attention import AuxRequest, create_block_mask, flex_attention

from probe_io import answer_cases, bfloat16

TYPES = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


def tensor(case, name):
    made = torch.from_numpy(case[name])
    return made.to(TYPES[case.dtype]) if made.is_floating_point() and name != "alibi_slopes" else made


def array(made):
    made = made.detach()
    return bfloat16(made.float().numpy()) if made.dtype == torch.bfloat16 else made.numpy()


def broadcast(case, name):
    """The mask as (batch, head, query, key), so that an index of each is right."""
    return tensor(case, name).expand(*case["q"].shape[:3], case["k"].shape[2])


def mask_mod(case):
    """Which keys a query sees, as a function of the indices; None if all."""
    offset = case["k"].shape[2] - case["q"].shape[2] if case.get("causal") == "bottom-right" else 0
    rules = []
    if case.get("causal"):
        rules.append(lambda b, h, i, j: j <= i + offset)
    if case.get("window"):
        left, right = case.get("window")
        if left >= 0:
            rules.append(lambda b, h, i, j: i + offset - j <= left)
        if right >= 0:
            rules.append(lambda b, h, i, j: j - i - offset <= right)
    if case.get("mask") == "boolean":
        mask = broadcast(case, "mask")
        rules.append(lambda b, h, i, j: mask[b, h, i, j])
    if case.get("padding"):
        lengths = tensor(case, "lengths")
        rules.append(lambda b, h, i, j: j < lengths[b])
    return torch.nn.attention.flex_attention.and_masks(*rules) if rules else None


def score_mod(case):
    """What is done to the scaled logits, as a function of a logit and the indices; None if nothing."""
    cap = torch.tensor(case.get("softcap")) if case.get("softcap") else None  # as a number it would be a symbol from the second value on
    slopes = tensor(case, "alibi_slopes") if case.get("alibi") else None
    mask = broadcast(case, "mask") if case.get("mask") == "additive" else None
    if cap is None and slopes is None and mask is None:
        return None

    def change(score, b, h, i, j):
        score = score if cap is None else cap * torch.tanh(score / cap)
        score = score if slopes is None else score - slopes[h] * (i - j).abs()
        return score if mask is None else score + mask[b, h, i, j]

    return change


def attend(case):
    case.offers(scale=True, causal=True, window=True, softcap=True, alibi=True, mask=["boolean", "additive"], padding=True,
                kv_groups=["repeat"], empty_rows=True)
    q, k, v = (tensor(case, name) for name in "qkv")
    (batch, heads, n, _), m = q.shape, k.shape[2]
    rule = mask_mod(case)
    block_mask = create_block_mask(rule, batch, heads, n, m, device="cpu") if rule else None
    o, aux = flex_attention(q, k, v, score_mod=score_mod(case), block_mask=block_mask, scale=case.scale, enable_gqa="kv_groups" in case.options,
                            return_aux=AuxRequest(lse=True))
    return {"o": array(o), "lse": array(aux.lse)}


if __name__ == "__main__":
    warnings.filterwarnings("ignore", message=".*flex_attention called without torch.compile.*")
    answer_cases(attend, implementation="torch flex_attention", version=torch.__version__, device="cpu", notes="not compiled")
