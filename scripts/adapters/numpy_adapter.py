#!/usr/bin/env python3
# /// script
# requires-python = ">=3.10"
# dependencies = ["numpy"]
# ///
"""Attention by its definition in NumPy, with every option of `attn probe`: the pattern for other adapters, and what the probe is tested with.

    python3 numpy_adapter.py DIR DIR/out                    all right
    python3 numpy_adapter.py --fault no_scale DIR DIR/out   plants a fault that was reported in public (--list-faults)

float64 cases are computed in float64, the others in float32 and rounded at the end. A query that sees no key gets zeros.
"""
import sys

import numpy as np

from probe_io import answer_cases, arguments, bfloat16


class Attention:
    """softmax(mask(softcap(scale·QKᵀ) + bias))·V, one method a step. Arrays are (batch, head, query, key or column)."""

    def __init__(self, case):
        self.case = case
        kind = np.float64 if case.dtype == "f64" else np.float32
        self.q, self.k, self.v = (case[name].astype(kind) for name in ("q", "k", "v"))
        self.kv_heads = self.k.shape[1]
        self.k, self.v = self.grouped(self.k), self.grouped(self.v)
        self.batch, self.heads, self.n, self.d = self.q.shape
        self.m = self.k.shape[2]
        offset = self.m - self.n if self.alignment() == "bottom-right" else 0
        self.query, self.key = np.arange(self.n)[:, None] + offset, np.arange(self.m)[None, :]

    def grouped(self, keys):
        """Query head h uses key head h / (heads / key heads)."""
        return np.repeat(keys, self.q.shape[1] // keys.shape[1], axis=1)

    def alignment(self):
        return self.case.get("causal")

    # Which keys a query sees

    def causal(self):
        return self.key <= self.query

    def window(self):
        left, right = self.case.get("window")
        back = self.query - self.key
        return ((left < 0) | (back <= left)) & ((right < 0) | (-back <= right))

    def boolean_mask(self):
        return self.case["mask"]

    def padding(self):
        return (np.arange(self.m) < self.case["lengths"][:, None])[:, None, None, :]

    def visible(self):
        visible = np.ones((self.batch, self.heads, self.n, self.m), bool)
        if self.case.get("causal"):
            visible &= self.causal()
        if self.case.get("window"):
            visible &= self.window()
        if self.case.get("mask") == "boolean":
            visible &= self.boolean_mask()
        if self.case.get("padding"):
            visible &= self.padding()
        return visible

    # From logits to the output

    def scale(self):
        return 1 / np.sqrt(self.d) if self.case.scale is None else self.case.scale

    def products(self):
        return self.q @ self.k.swapaxes(-1, -2)

    def scaled(self):
        return self.products() * self.q.dtype.type(self.scale())

    def softcap(self, logits):
        cap = self.case.get("softcap")
        return cap * np.tanh(logits / cap)

    def alibi(self):
        return -self.case["alibi_slopes"][:, None, None] * abs(self.query - self.key)

    def additive_mask(self):
        return self.case["mask"].astype(self.q.dtype)

    def logits(self, visible):
        logits = self.scaled()
        if self.case.get("softcap"):
            logits = self.softcap(logits)
        if self.case.get("alibi"):
            logits = logits + self.alibi()
        if self.case.get("mask") == "additive":
            logits = logits + self.additive_mask()
        return np.where(visible, logits, -np.inf)

    def maximum(self, logits):
        """What is subtracted before the exponential; 0 for a row without a visible key."""
        maximum = logits.max(-1, keepdims=True)
        return np.where(np.isneginf(maximum), 0, maximum)

    def softmax(self, logits, axis=-1):
        maximum = self.maximum(logits)
        exponentials = np.exp(logits - maximum)
        total = exponentials.sum(axis, keepdims=True)
        return exponentials / np.where(total == 0, 1, total), self.lse(maximum, total)

    def lse(self, maximum, total):
        return (maximum + np.log(total))[..., 0]

    def weighted_sum(self, weights, visible):
        """Σ over the visible keys; a value at a hidden key does not count, not even NaN."""
        if np.isfinite(self.v).all():
            return weights @ self.v
        return np.stack([np.where(visible[:, :, row, :, None], weights[:, :, row, :, None] * self.v, 0).sum(-2)
                         for row in range(self.n)], axis=2)

    # Gradients of Σ(output · do)

    def softcap_slope(self, logits):
        return 1 - np.tanh(self.scaled() / self.case.get("softcap")) ** 2 if self.case.get("softcap") else 1

    def gradients(self, logits, weights, output):
        do = self.case["do"].astype(self.q.dtype)
        d_weights = do @ self.v.swapaxes(-1, -2)
        d_logits = weights * (d_weights - (do * output).sum(-1, keepdims=True)) * self.softcap_slope(logits)
        scale = self.q.dtype.type(self.scale_of_gradient())
        return {"dq": d_logits @ self.k * scale, "dk": self.summed(d_logits.swapaxes(-1, -2) @ self.q * scale),
                "dv": self.summed(weights.swapaxes(-1, -2) @ do)}

    def scale_of_gradient(self):
        return self.scale()

    def summed(self, gradient):
        """Over the query heads of each key head."""
        return gradient.reshape(self.batch, self.kv_heads, -1, *gradient.shape[2:]).sum(2)

    def answer(self):
        visible = self.visible()
        logits = self.logits(visible)
        weights, lse = self.softmax(logits)
        output = self.weighted_sum(weights, visible)
        answer = {"o": output, "weights": weights, "lse": lse}
        if self.case.get("gradients"):
            answer |= self.gradients(logits, weights, output)
        return answer


def stored(case, answer):
    """In the type of the case; the log-sum-exp stays in the type that it was computed in."""
    store = {"f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": None}[case.dtype]
    return {name: array if name == "lse" else bfloat16(array) if store is None else array.astype(store)
            for name, array in answer.items()}


def faults():
    """numpy_faults.py, which stands beside this file in the project's scripts/adapters."""
    try:
        import numpy_faults
    except ImportError:
        sys.exit("numpy_adapter.py: the faults are in numpy_faults.py, which is not beside this file")
    return numpy_faults


def main():
    parser = arguments()
    parser.description = "Attention by its definition, in NumPy"
    parser.add_argument("--fault", metavar="NAME", help="plant this fault")
    parser.add_argument("--list-faults", action="store_true", help="print the faults, and where each was reported")
    if "--list-faults" in sys.argv:
        faults().print_list()
        return
    parsed = parser.parse_args()
    attention = Attention
    if parsed.fault:
        attention = faults().find(parsed.fault)

    def attend(case):
        case.offers(scale=True, causal=True, window=True, softcap=True, alibi=True, kv_groups=["repeat"],
                    mask=["boolean", "additive"], padding=True, empty_rows=True, gradients=True)
        with np.errstate(all="ignore"):
            return stored(case, attention(case).answer())

    answer_cases(attend, parsed, implementation="numpy, by definition", version=np.__version__, device="cpu",
                  notes=f"fault planted: {parsed.fault}" if parsed.fault else "")


if __name__ == "__main__":
    main()
