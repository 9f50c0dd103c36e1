#!/usr/bin/env python3
# /// script
# requires-python = ">=3.10"
# dependencies = ["numpy", "keras", "jax"]
# ///
"""keras.ops.dot_product_attention on the backend that KERAS_BACKEND names (jax if it names none).

    KERAS_BACKEND=torch python3 keras_adapter.py DIR DIR/out
"""
import os

os.environ.setdefault("KERAS_BACKEND", "jax")
if os.environ["KERAS_BACKEND"] == "jax":
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    os.environ.setdefault("JAX_ENABLE_X64", "1")

import keras
import numpy as np

from probe_io import Unsupported, answer_cases, bfloat16

TYPES = {"f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16"}


def tensor(case, name):
    """(batch, token, head, column), as Keras has it."""
    return keras.ops.swapaxes(keras.ops.convert_to_tensor(case[name], TYPES[case.dtype]), 1, 2)


def attend(case):
    case.offers(scale=True, causal=["either", "top-left"], mask=["boolean", "additive"], padding=True, kv_groups=["repeat"], empty_rows=True)
    if keras.backend.backend() == "jax" and case["v"].shape[-1] != case["k"].shape[-1]:
        raise Unsupported("values as wide as keys only")
    options = {"scale": case.scale, "is_causal": "causal" in case.options}
    if case.get("mask") == "additive":
        options["bias"] = keras.ops.convert_to_tensor(case["mask"], TYPES[case.dtype])
    elif "mask" in case.tensors:
        options["mask"] = keras.ops.convert_to_tensor(case["mask"])
    o = keras.ops.swapaxes(keras.ops.dot_product_attention(*(tensor(case, name) for name in "qkv"), **options), 1, 2)
    if keras.backend.standardize_dtype(o.dtype) == "bfloat16":
        return {"o": bfloat16(keras.ops.convert_to_numpy(keras.ops.cast(o, "float32")))}
    return {"o": np.asarray(keras.ops.convert_to_numpy(o))}


if __name__ == "__main__":
    backend = keras.backend.backend()
    answer_cases(attend, implementation=f"keras.ops.dot_product_attention ({backend})", version=keras.__version__, device="cpu",
                  notes=f"backend {backend} {__import__(backend).__version__}")
