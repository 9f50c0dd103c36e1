#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["numpy", "tinygrad"]
# ///
"""tinygrad's Tensor.scaled_dot_product_attention, on its CPU device (which needs clang, 17 or newer for bf16) or the one that DEV names, with gradients.

    DEV=CPU python3 tinygrad_adapter.py DIR DIR/out
"""
import importlib.metadata
import os

os.environ.setdefault("DEV", "CPU")

import numpy as np
from tinygrad import Device, Tensor, dtypes

from probe_io import Unsupported, answer_cases, bfloat16

TYPES = {"f64": dtypes.float64, "f32": dtypes.float32, "f16": dtypes.float16, "bf16": dtypes.bfloat16}


def tensor(case, name):
    made = Tensor(case[name])
    return made if made.dtype == dtypes.bool else made.cast(TYPES[case.dtype])


def array(made):
    return bfloat16(made.cast(dtypes.float32).numpy()) if made.dtype == dtypes.bfloat16 else np.asarray(made.numpy())


def attend(case):
    case.offers(causal=["either", "top-left"], mask=["boolean", "additive"], padding=True, kv_groups=["repeat"], empty_rows=True, gradients=True)
    masked = "mask" in case.tensors
    if masked and "causal" in case.options:
        raise Unsupported("attn_mask and is_causal together are refused")
    inputs = [tensor(case, name) for name in "qkv"]
    q, k, v = inputs
    o = q.scaled_dot_product_attention(k, v, attn_mask=tensor(case, "mask") if masked else None, is_causal="causal" in case.options,
                                       enable_gqa="kv_groups" in case.options)
    answer = {"o": o}
    if case.get("gradients"):
        answer |= zip(("dq", "dk", "dv"), o.gradient(*inputs, gradient=tensor(case, "do")))
    return {name: array(made) for name, made in answer.items()}


if __name__ == "__main__":
    answer_cases(attend, implementation="tinygrad scaled_dot_product_attention", version=importlib.metadata.version("tinygrad"),
                  device=Device.DEFAULT)
