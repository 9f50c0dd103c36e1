#!/usr/bin/env python3
# /// script
# requires-python = ">=3.10"
# dependencies = ["numpy", "torch"]
# ///
"""torch.nn.functional.scaled_dot_product_attention on the CPU, with gradients by autograd.

    python3 torch_adapter.py DIR DIR/out                      PyTorch chooses the kernel
    python3 torch_adapter.py --backend math DIR DIR/out       only this one (math, flash, efficient)
"""
import contextlib

import torch
from torch.nn.attention import SDPBackend, bias, sdpa_kernel

from probe_io import Unsupported, answer_cases, arguments, bfloat16

TYPES = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
BACKENDS = {"math": SDPBackend.MATH, "flash": SDPBackend.FLASH_ATTENTION, "efficient": SDPBackend.EFFICIENT_ATTENTION}


def tensor(case, name):
    made = torch.from_numpy(case[name])
    return made.to(TYPES[case.dtype]) if made.is_floating_point() else made


def array(made):
    made = made.detach()
    return bfloat16(made.float().numpy()) if made.dtype == torch.bfloat16 else made.numpy()


def attend(case):
    case.offers(scale=True, causal=True, mask=["boolean", "additive"], padding=True, kv_groups=["repeat"], empty_rows=True, gradients=True)
    q, k, v = (tensor(case, name).requires_grad_(bool(case.get("gradients"))) for name in "qkv")
    masked = case.get("mask") or case.get("padding")
    causal = case.get("causal")
    if masked and causal:
        raise Unsupported("attn_mask and is_causal together are refused")
    mask = tensor(case, "mask") if masked else None
    if causal == "bottom-right":
        mask = bias.causal_lower_right(q.shape[-2], k.shape[-2])
    try:
        o = torch.nn.functional.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, is_causal=causal in ("either", "top-left"), scale=case.scale, enable_gqa="kv_groups" in case.options)
    except RuntimeError as error:
        if "No available kernel" in str(error):
            raise Unsupported("the kernel that --backend names refuses it") from error
        raise
    answer = {"o": o}
    if case.get("gradients"):
        o.backward(tensor(case, "do"))
        answer |= {"dq": q.grad, "dk": k.grad, "dv": v.grad}
    return {name: array(made) for name, made in answer.items()}


def main():
    parser = arguments()
    parser.description = "torch.nn.functional.scaled_dot_product_attention"
    parser.add_argument("--backend", choices=BACKENDS, help="allow only this kernel")
    parsed = parser.parse_args()
    with sdpa_kernel(BACKENDS[parsed.backend]) if parsed.backend else contextlib.nullcontext():
        answer_cases(attend, parsed, implementation="torch scaled_dot_product_attention", version=torch.__version__, device="cpu",
                      notes=f"backend {parsed.backend}" if parsed.backend else "")


if __name__ == "__main__":
    main()
