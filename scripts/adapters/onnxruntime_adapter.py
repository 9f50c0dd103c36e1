#!/usr/bin/env python3
# /// script
# requires-python = ">=3.10"
# dependencies = ["numpy", "onnx>=1.19", "onnxruntime"]
# ///
"""The Attention operator of ONNX (opset 23; 24 for lengths, 25 for windows) in ONNX Runtime, or in the evaluator that ONNX itself ships.

    python3 onnxruntime_adapter.py DIR DIR/out                the CPU provider of ONNX Runtime
    python3 onnxruntime_adapter.py --reference DIR DIR/out    onnx.reference.ReferenceEvaluator
"""
import ml_dtypes
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from probe_io import Unsupported, answer_cases, arguments, bfloat16

TYPES = {"f64": TensorProto.DOUBLE, "f32": TensorProto.FLOAT, "f16": TensorProto.FLOAT16, "bf16": TensorProto.BFLOAT16}
BOTTOM_RIGHT = "causal bottom-right goes by nonpad_kv_seqlen, from opset 24 on"


def model(case):
    """A graph of one node, and what is fed to it: the least opset that has the options."""
    kind = TYPES[case.dtype]
    feeds = {"Q": case["q"], "K": case["k"], "V": case["v"]}
    attributes, opset, outputs = {}, 23, ["Y"]
    if case.scale is not None:
        attributes["scale"] = case.scale
    if case.get("softcap"):
        attributes["softcap"] = case.get("softcap")
    if case.get("causal"):
        attributes["is_causal"] = 1
    if case.get("mask"):
        feeds["attn_mask"] = case["mask"]
    if case.get("padding") or case.get("causal") == "bottom-right":
        opset = 24
        lengths = case["lengths"] if case.get("padding") else np.full(len(case["q"]), case["k"].shape[2])
        feeds["nonpad_kv_seqlen"] = lengths.astype(np.int64)
    if case.get("window"):
        opset = 25
        attributes |= zip(("left_window_size", "right_window_size"), case.get("window"))
    if "weights" in case.wants:
        attributes["qk_matmul_output_mode"] = 3
        outputs += ["", "", "weights"]
    order = ["Q", "K", "V", "attn_mask", "past_key", "past_value", "nonpad_kv_seqlen"]
    inputs = [name if name in feeds else "" for name in order]
    while not inputs[-1]:
        inputs.pop()
    types = {name: {np.dtype(bool): TensorProto.BOOL, np.dtype(np.int64): TensorProto.INT64}.get(array.dtype, kind)
             for name, array in feeds.items()}
    graph = helper.make_graph(
        [helper.make_node("Attention", inputs, outputs, **attributes)], "attention",
        [helper.make_tensor_value_info(name, types[name], array.shape) for name, array in feeds.items()],
        [helper.make_tensor_value_info(name, kind, None) for name in outputs if name])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    made.ir_version = min(made.ir_version, 13)
    return made, {name: array.astype(ml_dtypes.bfloat16) if types[name] == TensorProto.BFLOAT16 else array for name, array in feeds.items()}


def attend(case, reference):
    case.offers(scale=True, causal=True, softcap=True, window=True, mask=["boolean", "additive"], padding=True, kv_groups=["repeat"],
                empty_rows=True)
    if case.get("padding") and case.get("causal") in ("either", "top-left"):
        raise Unsupported("causal with lengths is bottom-right")
    made, feeds = model(case)
    names = ["o", "weights"][:len(made.graph.output)]
    if reference:
        answers = ReferenceEvaluator(made).run(None, feeds)
    else:
        try:
            session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
        except (onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented, onnxruntime.capi.onnxruntime_pybind11_state.Fail) as error:
            raise Unsupported(str(error).splitlines()[0]) from error
        answers = session.run(None, feeds)
    return {name: bfloat16(array.astype(np.float32)) if array.dtype == ml_dtypes.bfloat16 else array
            for name, array in zip(names, answers)}


def main():
    parser = arguments()
    parser.description = "the Attention operator of ONNX"
    parser.add_argument("--reference", action="store_true", help="ONNX's own evaluator instead of ONNX Runtime")
    parsed = parser.parse_args()
    if parsed.reference:
        about = {"implementation": "onnx ReferenceEvaluator, Attention", "version": onnx.__version__}
    else:
        about = {"implementation": "onnxruntime, Attention", "version": onnxruntime.__version__, "notes": f"onnx {onnx.__version__}"}
    answer_cases(lambda case: attend(case, parsed.reference), parsed, device="cpu", **about)


if __name__ == "__main__":
    main()
