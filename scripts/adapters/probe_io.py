"""What every adapter of `attn probe` needs: the loop over the cases, and .safetensors in plain NumPy.

An adapter is a function from a case to its answer, handed to `answer_cases`:

    def attend(case):
        case.offers(scale=True, causal=["either"], mask=["boolean"], empty_rows=True)     # else: unsupported
        return {"o": library.attention(case["q"], case["k"], case["v"], scale=case.scale)}

    answer_cases(attend, implementation="library attention", version=library.__version__)

Tensors are NumPy arrays of the case's type. NumPy has no bfloat16: those tensors are read as float32, which holds them exactly,
and an answer that the library gave in bfloat16 is handed back as `bfloat16(array)`.
This file needs nothing but NumPy. It stands beside an adapter, or in it in place of the line that imports it.
"""
import argparse
import json
import os
import pathlib
import sys

import numpy as np

STORED = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "BOOL": "|b1", "I64": "<i8", "I32": "<i4", "U8": "|u1"}


class Unsupported(Exception):
    """The library does not offer what the case asks for; the text says what is missing."""


class Case:
    """One case: `case["q"]` is a tensor, `case.options` what the manifest says, `case.dtype` one of f64, f32, f16, bf16."""

    def __init__(self, folder, entry):
        self.name, self.dtype, self.options, self.wants = (entry[key] for key in ("name", "dtype", "options", "wants"))
        self.tensors = read(folder / entry["file"])
        if self.options.get("padding"):
            self.options.pop("mask", None)  # says the same as the lengths, for libraries without those: case["mask"] is there

    def __getitem__(self, tensor):
        return self.tensors[tensor]

    def get(self, option, default=None):
        return self.options.get(option, default)

    @property
    def scale(self):
        """The scale asked for; None asks for the library's default."""
        return self.options.get("scale")

    def offers(self, types=("f64", "f32", "f16", "bf16"), **offered):
        """Raises Unsupported unless every option of the case is named here: `True`, or the values that the library has."""
        if self.dtype not in types:
            raise Unsupported(f"no {self.dtype}")
        for option, value in self.options.items():
            values = offered.get(option, False)
            if values is False:
                raise Unsupported(f"no option for {option}")
            if values is not True and value not in values:
                raise Unsupported(f"no {option} {value}")


def bfloat16(array):
    """The bit patterns (uint16) of the nearest bfloat16, ties to even; `write` stores uint16 as BF16."""
    array = np.ascontiguousarray(array, dtype=np.float32)
    bits = array.view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + (bits >> 16 & 1)) >> 16
    return np.where(np.isnan(array), bits >> 16 | 0x40, rounded).astype(np.uint16)


def read(path):
    """The tensors of a .safetensors file: 8 bytes of length, a JSON header, the bytes."""
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = file.read()
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            array = np.frombuffer(data[begin:end], STORED[entry["dtype"]]).reshape(entry["shape"])
            tensors[name] = (array.astype(np.uint32) << 16).view(np.float32) if entry["dtype"] == "BF16" else array.copy()
    return tensors


def write(path, tensors):
    """Writes under another name first, so that a file with the right name is whole."""
    names = {np.dtype(stored): name for name, stored in STORED.items()}
    header, data = {}, b""
    for name, array in tensors.items():
        array = np.asarray(array)
        header[name] = {"dtype": names[array.dtype], "shape": list(array.shape), "data_offsets": [len(data), len(data) + array.nbytes]}
        data += array.tobytes()
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    partial = path.with_suffix(".partial")
    partial.write_bytes(len(head).to_bytes(8, "little") + head + data)
    os.replace(partial, path)


def cases(folder):
    return json.loads((folder / "manifest.json").read_text())["cases"]


def arguments(parser=None):
    parser = parser or argparse.ArgumentParser()
    parser.add_argument("cases", type=pathlib.Path, help="folder made by `attn probe new`")
    parser.add_argument("outputs", type=pathlib.Path, help="folder for the answers")
    return parser


def answer_cases(attend, parsed=None, **about):
    """Answers every case that has no answer yet; `about` goes to about.json."""
    parsed = parsed or arguments().parse_args()
    parsed.outputs.mkdir(parents=True, exist_ok=True)
    (parsed.outputs / "about.json").write_text(json.dumps(about))
    for entry in cases(parsed.cases):
        answer = {kind: parsed.outputs / f"{entry['name']}.{kind}" for kind in ("safetensors", "unsupported", "error")}
        if any(path.exists() for path in answer.values()):
            continue
        try:
            tensors = attend(Case(parsed.cases, entry))
            write(answer["safetensors"], tensors)
        except Unsupported as reason:
            answer["unsupported"].write_text(f"{reason}\n")
        except Exception as error:  # the library's own error is an answer too: the judgement shows it
            answer["error"].write_text(f"{type(error).__name__}: {error}\n")
            print(f"{entry['name']}: {type(error).__name__}: {error}", file=sys.stderr)
