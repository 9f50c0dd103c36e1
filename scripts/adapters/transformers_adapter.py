#!/usr/bin/env python3
# /// script
# requires-python = ">=3.10"
# dependencies = ["numpy", "torch", "transformers"]
# ///
"""Hugging Face transformers: the attention functions that its models call, with the masks that its models build.

    python3 transformers_adapter.py DIR DIR/out              eager, as Gemma 2 has it (with the soft cap), with weights
    python3 transformers_adapter.py --sdpa DIR DIR/out       the function behind attn_implementation="sdpa"

A window [left, 0] is sliding_window = left + 1, the number of keys that a query sees. A boolean mask is given as a mask function,
lengths as the two-dimensional attention mask. Models give the scale always: 1/√d where the case leaves it to the default.
"""
import types

import torch
import transformers
from transformers import masking_utils
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.models.gemma2.modeling_gemma2 import eager_attention_forward

from probe_io import Unsupported, answer_cases, arguments, bfloat16

TYPES = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


def tensor(case, name):
    made = torch.from_numpy(case[name])
    return made.to(TYPES[case.dtype]) if made.is_floating_point() else made


def array(made):
    made = made.detach()
    return bfloat16(made.float().numpy()) if made.dtype == torch.bfloat16 else made.numpy()


def mask(case, sdpa):
    """What masking_utils makes for the options: boolean for sdpa, to be added for eager; None where there is none."""
    batch, _, n, _ = case["q"].shape
    m = case["k"].shape[2]
    if case.get("mask") == "additive":
        return tensor(case, "mask")
    if case.get("window"):
        left, right = case.get("window")
        if right != 0 or left < 0:
            raise Unsupported("windows look back only")
        rule = masking_utils.sliding_window_causal_mask_function(left + 1)
    elif case.get("causal"):
        rule = masking_utils.causal_mask_function
    elif case.get("padding") or case.get("mask"):
        rule = masking_utils.bidirectional_mask_function
    else:
        return None
    if case.get("mask"):
        given = tensor(case, "mask")
        if given.shape[1] != 1:
            raise Unsupported("masks are the same for all heads")
        rule = masking_utils.and_masks(rule, lambda b, h, i, j: given[b if given.shape[0] > 1 else 0, 0, i, j])
    padding = torch.arange(m) < tensor(case, "lengths")[:, None] if case.get("padding") else None
    make = masking_utils.sdpa_mask if sdpa else masking_utils.eager_mask
    return make(batch_size=batch, q_length=n, kv_length=m, q_offset=m - n if case.get("causal") == "bottom-right" else 0, mask_function=rule,
                attention_mask=padding, allow_is_causal_skip=False, **({} if sdpa else {"dtype": TYPES[case.dtype]}))


def attend(case, sdpa):
    case.offers(scale=True, causal=True, softcap=not sdpa, window=True, mask=["boolean", "additive"], padding=True, kv_groups=["repeat"],
                empty_rows=True, gradients=True)
    q, k, v = (tensor(case, name).requires_grad_(bool(case.get("gradients"))) for name in "qkv")
    module = types.SimpleNamespace(head_dim=q.shape[-1], num_key_value_groups=q.shape[1] // k.shape[1], training=False, is_causal=False)
    scale = q.shape[-1] ** -0.5 if case.scale is None else case.scale
    options = {} if sdpa else {"softcap": case.get("softcap")}
    function = sdpa_attention_forward if sdpa else eager_attention_forward
    o, weights = function(module, q, k, v, mask(case, sdpa), dropout=0.0, scaling=scale, **options)
    o = o.transpose(1, 2)
    answer = {"o": o} if weights is None else {"o": o, "weights": weights}
    if case.get("gradients"):
        o.backward(tensor(case, "do"))
        answer |= {"dq": q.grad, "dk": k.grad, "dv": v.grad}
    return {name: array(made) for name, made in answer.items()}


def main():
    parser = arguments()
    parser.description = "attention functions of transformers"
    parser.add_argument("--sdpa", action="store_true", help="sdpa_attention_forward instead of the eager function")
    parsed = parser.parse_args()
    answer_cases(lambda case: attend(case, parsed.sdpa), parsed, implementation=f"transformers, {'sdpa' if parsed.sdpa else 'eager (Gemma 2)'}",
                  version=transformers.__version__, device="cpu", notes=f"torch {torch.__version__}; no default scale: 1/√d passed")


if __name__ == "__main__":
    main()
