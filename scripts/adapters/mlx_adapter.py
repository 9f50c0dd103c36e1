#!/usr/bin/env python3
# /// script
# requires-python = ">=3.10"
# dependencies = ["numpy", "mlx; sys_platform == 'darwin'", "mlx[cpu]; sys_platform == 'linux'"]
# ///
"""mlx.core.fast.scaled_dot_product_attention on MLX's default device, with gradients by mx.vjp. Its scale has no default: 1/√d is passed.

    python3 mlx_adapter.py DIR DIR/out
"""
import importlib.metadata

import mlx.core as mx
import numpy as np

from probe_io import Unsupported, answer_cases, bfloat16

TYPES = {"f32": mx.float32, "f16": mx.float16, "bf16": mx.bfloat16}


def tensor(case, name):
    made = mx.array(case[name])
    return made if made.dtype == mx.bool_ else made.astype(TYPES[case.dtype])


def array(made):
    return bfloat16(np.array(made.astype(mx.float32))) if made.dtype == mx.bfloat16 else np.array(made)


def attend(case):
    case.offers(types=TYPES, scale=True, causal=["either", "bottom-right"], mask=["boolean", "additive"], padding=True, kv_groups=["repeat"],
                empty_rows=True, gradients=True)
    scale = case.scale or case["q"].shape[-1] ** -0.5
    masked = "mask" in case.tensors
    if masked and "causal" in case.options:
        raise Unsupported("a mask is an array or \"causal\", not both")
    mask = tensor(case, "mask") if masked else "causal" if "causal" in case.options else None

    def function(q, k, v):
        return [mx.fast.scaled_dot_product_attention(q, k, v, scale=scale, mask=mask)]

    inputs = [tensor(case, name) for name in "qkv"]
    answer = {"o": function(*inputs)[0]}
    if case.get("gradients"):
        answer |= zip(("dq", "dk", "dv"), mx.vjp(function, inputs, [tensor(case, "do")])[1])
    return {name: array(made) for name, made in answer.items()}


if __name__ == "__main__":
    answer_cases(attend, implementation="mlx.core.fast.scaled_dot_product_attention", version=importlib.metadata.version("mlx"),
                  device=str(mx.default_device()),
                  notes="no default scale: 1/√d passed")
