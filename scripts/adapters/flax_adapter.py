#!/usr/bin/env python3
# /// script
# requires-python = ">=3.10"
# dependencies = ["numpy", "jax", "flax"]
# ///
"""flax.linen.dot_product_attention on the CPU, its weights, its causal mask (make_causal_mask), and gradients by jax.vjp.

    python3 flax_adapter.py DIR DIR/out
"""
import flax
import jax
import jax.numpy as jnp
import numpy as np
from flax import linen

from probe_io import Unsupported, answer_cases, bfloat16

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_enable_x64", True)
TYPES = {"f64": jnp.float64, "f32": jnp.float32, "f16": jnp.float16, "bf16": jnp.bfloat16}


def tensor(case, name):
    """(batch, token, head, column), as Flax has it."""
    return jnp.asarray(case[name], TYPES[case.dtype]).swapaxes(1, 2)


def array(made):
    return bfloat16(np.asarray(made, np.float32)) if made.dtype == jnp.bfloat16 else np.asarray(made)


def attend(case):
    case.offers(causal=["either", "top-left", "bottom-right"], mask=["boolean", "additive"], padding=True, empty_rows=True, gradients=True)
    q, k, v = (tensor(case, name) for name in "qkv")
    masks, options = [], {}
    if case.get("causal"):
        if q.shape[1] != k.shape[1]:
            raise Unsupported("make_causal_mask is square")
        masks.append(linen.make_causal_mask(jnp.ones(q.shape[:2]), dtype=bool))
    if case.get("mask") == "boolean":
        masks.append(jnp.asarray(case["mask"]))
    if case.get("padding"):
        real = jnp.arange(k.shape[1]) < jnp.asarray(case["lengths"])[:, None]
        masks.append(linen.make_attention_mask(jnp.ones(q.shape[:2]), real, dtype=bool))
    if masks:
        options["mask"] = linen.combine_masks(*masks, dtype=bool)
    if case.get("mask") == "additive":
        options["bias"] = jnp.asarray(case["mask"], TYPES[case.dtype])
    o, backward = jax.vjp(lambda q, k, v: linen.dot_product_attention(q, k, v, **options), q, k, v)
    weights = linen.dot_product_attention_weights(q, k, **options)
    answer = {"o": o.swapaxes(1, 2), "weights": weights}
    if case.get("gradients"):
        answer |= {name: gradient.swapaxes(1, 2) for name, gradient in zip(("dq", "dk", "dv"), backward(tensor(case, "do")))}
    return {name: array(made) for name, made in answer.items()}


if __name__ == "__main__":
    answer_cases(attend, implementation="flax.linen.dot_product_attention", version=flax.__version__, device="cpu", notes=f"jax {jax.__version__}")
