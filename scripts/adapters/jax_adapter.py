#!/usr/bin/env python3
# /// script
# requires-python = ">=3.10"
# dependencies = ["numpy", "jax"]
# ///
"""jax.nn.dot_product_attention on the CPU, with its log-sum-exp, and gradients by jax.vjp.

    python3 jax_adapter.py DIR DIR/out
"""
import jax
import jax.numpy as jnp
import numpy as np

from probe_io import Unsupported, answer_cases, bfloat16

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_enable_x64", True)
TYPES = {"f64": jnp.float64, "f32": jnp.float32, "f16": jnp.float16, "bf16": jnp.bfloat16}


def tensor(case, name):
    """(batch, token, head, column), as JAX has it."""
    return jnp.asarray(case[name], TYPES[case.dtype]).swapaxes(1, 2)


def array(made):
    return bfloat16(np.asarray(made, np.float32)) if made.dtype == jnp.bfloat16 else np.asarray(made)


def attend(case):
    case.offers(scale=True, causal=["either", "top-left"], window=True, mask=["boolean", "additive"], padding=True,
                kv_groups=["repeat"], empty_rows=True, gradients=True)
    if case["v"].shape[-1] != case["k"].shape[-1]:
        raise Unsupported("values as wide as keys only")
    options = {"scale": case.scale, "is_causal": "causal" in case.options, "local_window_size": case.get("window")}
    if case.get("window"):
        if -1 in case.get("window"):
            raise Unsupported("no window that is open on one side")
        options["local_window_size"] = tuple(case.get("window"))
    if case.get("mask") == "boolean":
        options["mask"] = jnp.asarray(case["mask"])
    if case.get("mask") == "additive":
        options["bias"] = jnp.asarray(case["mask"], TYPES[case.dtype])
    if case.get("padding"):
        options["key_value_seq_lengths"] = jnp.asarray(case["lengths"], jnp.int32)

    def function(q, k, v):
        return jax.nn.dot_product_attention(q, k, v, return_residual=True, **options)

    o, backward, lse = jax.vjp(function, *(tensor(case, name) for name in "qkv"), has_aux=True)
    answer = {"o": o.swapaxes(1, 2), "lse": lse.swapaxes(1, 2)}
    if case.get("gradients"):
        answer |= {name: gradient.swapaxes(1, 2) for name, gradient in zip(("dq", "dk", "dv"), backward(tensor(case, "do")))}
    return {name: array(made) for name, made in answer.items()}


if __name__ == "__main__":
    answer_cases(attend, implementation="jax.nn.dot_product_attention", version=jax.__version__, device="cpu", notes="implementation xla")
