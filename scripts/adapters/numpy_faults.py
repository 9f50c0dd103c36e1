"""Faults that were reported in public projects, each as the one step of `numpy_adapter.Attention` that went wrong.

The first line of each docstring says what is wrong and where it was reported (repository and number of the issue). A class whose
line starts with "sound:" is a correct variant that people take for a fault, or a legal convention: the judgement must not object.
"""
import os
import re
import sys
import time

import numpy as np

from numpy_adapter import Attention
from probe_io import bfloat16

FAULTS = {}


def fault(kind):
    """Registers the class as its_name."""
    FAULTS[re.sub(r"(?<=.)(?=[A-Z])", "_", kind.__name__).lower()] = kind
    return kind


def find(name):
    if name not in FAULTS:
        sys.exit(f"--fault {name}: not one of {', '.join(FAULTS)}")
    return FAULTS[name]


def print_list():
    for name, kind in FAULTS.items():
        print(f"{name:34} {kind.__doc__.splitlines()[0]}")


# Scale

@fault
class NoScale(Attention):
    """the logits are not scaled (mlc-ai/mlc-llm#3426)"""
    def scale(self):
        return 1.0


@fault
class ScaleTwice(Attention):
    """Q is scaled, and the call scales by its default again (huggingface/transformers#38290)"""
    def scale(self):
        return super().scale() / np.sqrt(self.d)


@fault
class ScaleD(Attention):
    """the default is 1/d instead of 1/√d (gmboquet/mixle#258, the other way round)"""
    def scale(self):
        return 1 / self.d if self.case.scale is None else self.case.scale


@fault
class ScaleModelWidth(Attention):
    """1/√(heads·d) instead of 1/√d (lucidrains/vit-pytorch#65)"""
    def scale(self):
        return 1 / np.sqrt(self.heads * self.d) if self.case.scale is None else self.case.scale


@fault
class ScaleArgumentIgnored(Attention):
    """changing the scale changes nothing (tenstorrent/tt-metal#33304, huggingface/transformers#44397)"""
    def scale(self):
        return 1 / np.sqrt(self.d)


@fault
class SoftcapIgnored(Attention):
    """the soft cap is accepted and ignored (sgl-project/sgl-kernel-xpu#491)"""
    def softcap(self, logits):
        return logits


@fault
class SoftcapWrongFormula(Attention):
    """x·tanh(x/c) instead of c·tanh(x/c) (unslothai/unsloth-zoo#593)"""
    def softcap(self, logits):
        return logits * np.tanh(logits / self.case.get("softcap"))


@fault
class SoftcapBeforeScale(Attention):
    """the cap comes before the scale instead of after it (huggingface/trl#5691)"""
    def softcap(self, logits):
        cap, scale = self.case.get("softcap"), self.scale()
        return scale * cap * np.tanh(logits / scale / cap)


@fault
class SoftcapOnMask(Attention):
    """the mask is added before the cap, so that hidden keys get the logit -c (own inference from unslothai/unsloth-zoo#593)"""
    def logits(self, visible):
        logits = super().logits(visible)
        return np.where(visible, logits, -self.case.get("softcap")) if self.case.get("softcap") else logits


# Softmax

@fault
class SoftmaxOverQueries(Attention):
    """the weights add up to 1 over the queries (labmlai/annotated_deep_learning_paper_implementations#146)"""
    def softmax(self, logits):
        return super().softmax(logits, axis=-2)

    def maximum(self, logits):
        maximum = logits.max(-2, keepdims=True)
        return np.where(np.isneginf(maximum), 0, maximum)

    def lse(self, maximum, total):
        return np.broadcast_to((maximum + np.log(total)).mean(-1), (self.batch, self.heads, self.n)).copy()


@fault
class SoftmaxOverBatch(SoftmaxOverQueries):
    """the weights add up to 1 over the batch (PetrochukM/PyTorch-NLP#2)"""
    def softmax(self, logits):
        return Attention.softmax(self, logits, axis=0)

    def maximum(self, logits):
        maximum = logits.max(0, keepdims=True)
        return np.where(np.isneginf(maximum), 0, maximum)


@fault
class NoMaxSubtraction(Attention):
    """the exponential overflows, because the row's maximum is not subtracted (ggml-org/llama.cpp#2665)"""
    def maximum(self, logits):
        return np.zeros_like(logits[..., :1])


@fault
class DropoutOn(Attention):
    """dropout of 10 % stays on in evaluation (karpathy/nanoGPT#240, pytorch/pytorch#124464)"""
    def softmax(self, logits):
        weights, lse = super().softmax(logits)
        return weights * (np.random.default_rng().random(weights.shape) >= 0.1) / 0.9, lse


@fault
class LseBaseTwo(Attention):
    """the log-sum-exp is in base 2 (sgl-project/sglang#33065, flashinfer-ai/flashinfer#4485)"""
    def lse(self, maximum, total):
        return super().lse(maximum, total) / np.log(2)


@fault
class LseOffset(Attention):
    """the log-sum-exp is off by ln 2 (pytorch/pytorch#181645)"""
    def lse(self, maximum, total):
        return super().lse(maximum, total) + np.log(2)


@fault
class LseCentredKeys(Attention):
    """the log-sum-exp is that of keys with their mean taken away (ROCm/aiter#3334)"""
    def lse(self, maximum, total):
        return super().lse(maximum, total) - self.scale() * (self.q * self.k.mean(2, keepdims=True)).sum(-1)


# Masks

@fault
class CausalTransposed(Attention):
    """the past is hidden, the future visible (pytorch/examples#649)"""
    def causal(self):
        return self.key >= self.query


@fault
class CausalDiagonalHidden(Attention):
    """a token does not see itself (pbloem/former#10)"""
    def causal(self):
        return self.key < self.query


@fault
class CausalIgnored(Attention):
    """one path forgets the causal mask (keras-team/keras#23038)"""
    def causal(self):
        return True


@fault
class CausalOtherAlignment(Attention):
    """top-left for bottom-right, and the reverse (ml-explore/mlx#2835, pytorch/executorch#22426, microsoft/onnxruntime#29020)"""
    def alignment(self):
        return {"top-left": "bottom-right", "bottom-right": "top-left"}.get(super().alignment(), super().alignment())


@fault
class MaskPolarity(Attention):
    """true hides instead of showing (lucidrains/x-transformers#160)"""
    def boolean_mask(self):
        return ~super().boolean_mask()


@fault
class MaskMultiplied(Attention):
    """the logits are multiplied by the mask, so that hidden keys get the logit 0 (georg-wolflein/good-features#1)"""
    def boolean_mask(self):
        return True

    def scaled(self):
        return super().scaled() * (self.case["mask"] if self.case.get("mask") == "boolean" else 1)


@fault
class MaskIgnored(Attention):
    """the mask is dropped on one path (keras-team/keras#23040)"""
    def boolean_mask(self):
        return True

    def additive_mask(self):
        return 0


@fault
class MaskConstantOverflows(Attention):
    """(1 - mask)·(-1e9) in f16 is 0·(-inf), NaN, at the visible keys (google/flax#982, ml-explore/mlx#1725)"""
    def scaled(self):
        scaled = super().scaled()
        if self.case.dtype != "f16" or self.case.get("mask") != "boolean":
            return scaled
        return scaled + (1 - self.case["mask"].astype(np.float16)) * np.float16(-1e9)


@fault
class WindowOffByOne(Attention):
    """one key more to the left (huggingface/transformers#39408, #29623)"""
    def window(self):
        left, right = self.case.get("window")
        back = self.query - self.key
        return ((left < 0) | (back <= left + 1)) & ((right < 0) | (-back <= right))


@fault
class WindowIgnored(Attention):
    """the window is not applied (jax-ml/jax#32357, unslothai/unsloth#8253)"""
    def window(self):
        return True


@fault
class PaddingIgnored(Attention):
    """padded keys are seen (AI4Bharat/IndicBERT#20)"""
    def padding(self):
        return True


@fault
class PaddingFirstBatchOnly(Attention):
    """the length of the first sequence is used for all (row 0 against the others, as in huggingface/transformers#46773)"""
    def padding(self):
        return np.arange(self.m) < self.case["lengths"][0]


@fault
class NanLeak(Attention):
    """hidden keys and values are multiplied by 0 instead of left out (pytorch/pytorch#101967)"""
    def logits(self, visible):
        unhidden = super().logits(np.ones_like(visible))
        return unhidden + np.where(visible, 0, -np.inf).astype(unhidden.dtype)

    def maximum(self, logits):
        maximum = logits.max(-1, keepdims=True)
        return np.where(np.isneginf(maximum), 0, maximum)

    def weighted_sum(self, weights, visible):
        return weights @ self.v


# Precision

@fault
class LogitsInF16(Attention):
    """QKᵀ is kept in f16 and overflows before the scale (ggml-org/llama.cpp#7805)"""
    def products(self):
        products = super().products()
        return products.astype(np.float16).astype(products.dtype) if self.case.dtype == "f16" else products


@fault
class SoftmaxInBf16(Attention):
    """the logits are rounded to bf16 before the softmax (AI-Hypercomputer/maxtext#1225)"""
    def scaled(self):
        scaled = super().scaled()
        if self.case.dtype == "f64":
            return scaled
        return (bfloat16(scaled).astype(np.uint32) << 16).view(np.float32)


@fault
class RowSumInF16(Attention):
    """the exponentials of a row are added up in f16, one after another (huggingface/candle#3727, sonos/tract#2586)"""
    def softmax(self, logits):
        if self.case.dtype != "f16":
            return super().softmax(logits)
        maximum = self.maximum(logits)
        exponentials = np.exp(logits - maximum)
        total = np.add.accumulate(exponentials, -1, np.float16)[..., -1:].astype(logits.dtype)
        return exponentials / np.where(total == 0, 1, total), self.lse(maximum, total)


# Heads and batch

@fault
class GroupsTiled(Attention):
    """query head h uses key head h mod key heads (ggml-org/llama.cpp#3364)"""
    def grouped(self, keys):
        return np.tile(keys, (1, self.q.shape[1] // keys.shape[1], 1, 1))

    def summed(self, gradient):
        return gradient.reshape(self.batch, -1, self.kv_heads, *gradient.shape[2:]).sum(1)


@fault
class HeadsMergedWithoutTranspose(Attention):
    """heads and tokens are reshaped into each other (jsbaan/transformer-from-scratch#6, reczoo/FuxiCTR#30)"""
    def weighted_sum(self, weights, visible):
        output = super().weighted_sum(weights, visible)
        return output.swapaxes(1, 2).reshape(output.shape)


@fault
class BatchLeak(Attention):
    """every sequence uses the keys of the first (row 0 against the others, as in Blaizzy/mlx-vlm#1946)"""
    def products(self):
        return self.q @ self.k[:1].swapaxes(-1, -2)


# Positions

@fault
class AlibiSlopesReversed(Attention):
    """the slopes are given to the heads in reverse order (planted; no report)"""
    def alibi(self):
        return super().alibi()[::-1]


@fault
class AlibiScaled(Attention):
    """the bias is added before the scale, so that it is scaled too (huggingface/transformers#29946, #29067)"""
    def alibi(self):
        return super().alibi() * self.scale()


@fault
class AlibiIgnored(Attention):
    """no bias at all (planted; no report)"""
    def alibi(self):
        return 0


# Gradients

@fault
class GradientWithoutScale(Attention):
    """dQ and dK lack the scale (planted; no report)"""
    def scale_of_gradient(self):
        return 1.0


@fault
class GradientOfGroupsNotSummed(Attention):
    """dK and dV hold the last query head of each group only (planted; no report)"""
    def summed(self, gradient):
        return gradient.reshape(self.batch, self.kv_heads, -1, *gradient.shape[2:])[:, :, -1]


# What a program does

@fault
class Nondeterministic(Attention):
    """the same input gives another output each time (pytorch/pytorch#124464)"""
    def weighted_sum(self, weights, visible):
        output = super().weighted_sum(weights, visible)
        return output * (1 + 0.01 * np.random.default_rng().standard_normal(output.shape)).astype(output.dtype)


@fault
class Crash(Attention):
    """the process dies at soft-capped cases (facebookresearch/xformers#1135 for a mask)"""
    def softcap(self, logits):
        os._exit(134)


@fault
class Hang(Attention):
    """soft-capped cases never end (planted; no report)"""
    def softcap(self, logits):
        time.sleep(3600)


@fault
class WrongShape(Attention):
    """the output is (batch, token, head, column) (the layout of oxiglade/mlx-rs#357)"""
    def answer(self):
        answer = super().answer()
        return answer | {"o": answer["o"].swapaxes(1, 2)}


@fault
class MissingOutput(Attention):
    """the answer has no output (planted; no report)"""
    def answer(self):
        return {name: array for name, array in super().answer().items() if name != "o"}


@fault
class NanOutput(Attention):
    """one number of the output is NaN (the comparison of tracel-ai/cubecl#1070 passes)"""
    def weighted_sum(self, weights, visible):
        output = super().weighted_sum(weights, visible).copy()
        output[-1, -1, -1, -1] = np.nan
        return output


# No faults

@fault
class SoundScaleSplit(Attention):
    """sound: the root of the scale on each of Q and K (openai/guided-diffusion#38)"""
    def products(self):
        root = self.q.dtype.type(np.sqrt(self.scale()))
        return (self.q * root) @ (self.k * root).swapaxes(-1, -2)

    def scaled(self):
        return self.products()


@fault
class SoundRowConstant(Attention):
    """sound: a constant on each row of logits, taken out of the log-sum-exp again (karpathy/nanochat#264 for a permutation)"""
    def maximum(self, logits):
        return super().maximum(logits) + 1


@fault
class SoundMaskAfterSoftmax(Attention):
    """sound: the mask after the softmax, and the rows normalised again"""
    def softmax(self, logits):
        hidden = np.isneginf(logits)
        weights, lse = super().softmax(logits)
        free = np.where(hidden, 0, weights)
        total = free.sum(-1, keepdims=True)
        return free / np.where(total == 0, 1, total), lse


@fault
class SoundEmptyRowsUniform(Attention):
    """sound: a query without keys gets the mean of all values, as a finite mask constant does (ml-explore/mlx#2608)"""
    def softmax(self, logits):
        weights, lse = super().softmax(logits)
        return np.where(np.isneginf(logits).all(-1, keepdims=True), weights.dtype.type(1 / self.m), weights), lse

    def weighted_sum(self, weights, visible):
        return super().weighted_sum(weights, visible | ~visible.any(-1, keepdims=True))


@fault
class SoundEmptyRowsNan(Attention):
    """sound: a query without keys gets NaN (pytorch/pytorch#103749)"""
    def softmax(self, logits):
        weights, lse = super().softmax(logits)
        return np.where(np.isneginf(logits).all(-1, keepdims=True), weights.dtype.type(np.nan), weights), lse

    def weighted_sum(self, weights, visible):
        return np.where(visible.any(-1, keepdims=True), super().weighted_sum(weights, visible), np.nan).astype(weights.dtype)
