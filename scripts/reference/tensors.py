"""Small files of arrays in tests/golden/tensors, by NumPy, ml_dtypes and safetensors, and what Python reads back from each.

Usage: pip install numpy ml_dtypes safetensors; python scripts/reference/tensors.py tests/golden/tensors

values.csv has a line for each array: file, name, type as the program calls it, C or F, shape (x between the axes; empty for a
single number), and the entries in C order as shortest decimals, space between. The entries are what Python holds after reading
the file back, converted to f64, which is exact for every type here but 64-bit integers, which are printed as integers.
"""
import csv
import io
import sys
import zipfile
from fractions import Fraction
from pathlib import Path

import ml_dtypes
import numpy as np
import safetensors.numpy

FOLDER = Path(sys.argv[1])
rows = []

NAMES = {"float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16", "bool": "bool"}


def name_of(dtype):
    native = dtype.newbyteorder("=").name
    return NAMES.get(native, native.replace("uint", "u").replace("int", "i"))


def record(file, name, array, order="C"):
    kind = name_of(array.dtype)
    flat = np.ascontiguousarray(array).reshape(-1)
    if array.dtype.kind in "iu":
        entries = [str(int(x)) for x in flat]
    else:
        entries = [repr(float(x)) for x in flat.astype(np.float64)]
    rows.append([file, name, kind, order, "x".join(map(str, array.shape)), " ".join(entries)])


def save(file, array):
    np.save(FOLDER / file, array)
    back = np.load(FOLDER / file)
    assert back.dtype == array.dtype and back.shape == array.shape, file
    fortran = back.flags.f_contiguous and not back.flags.c_contiguous
    record(file, file.removesuffix(".npy"), back, "F" if fortran else "C")


def some(*shape, seed):
    """Numbers of every size a half type holds, both signs, no pattern that a swapped axis would keep."""
    draw = np.random.default_rng(seed)
    return draw.standard_normal(shape) * 2.0 ** draw.integers(-12, 12, shape)


# Every type, both byte orders, 3 x 5.
for code in ["f8", "f4", "f2"]:
    for order, word in [("<", "little"), (">", "big")]:
        array = some(3, 5, seed=1).astype(order + code)
        array[0, :4] = [np.inf, -np.inf, -0.0, np.finfo(code).smallest_subnormal]
        array[1, 0] = np.finfo(code).max
        save(f"{code}_{word}.npy", array)
for code in ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]:
    for order, word in [("<", "little"), (">", "big")]:
        if code[1] == "1" and order == ">":
            continue
        limits = np.iinfo(code)
        array = np.random.default_rng(2).integers(limits.min, limits.max, (3, 5), dtype=code, endpoint=True)
        if code[1] == "8":
            array >>= array.dtype.type(11)  # f64 holds 53 bits
        else:
            array[0, 0] = limits.max
        array[0, 1] = limits.min
        save(f"{code}_{word}.npy", array.astype(order + code))
save("bool.npy", np.random.default_rng(3).random((3, 5)) < 0.4)

# Fortran order: two, three and four axes.
save("fortran_2d.npy", np.asfortranarray(some(5, 7, seed=4).astype("<f4")))
save("fortran_transposed_f2.npy", some(7, 3, seed=5).astype("<f2").T)
save("fortran_3d.npy", np.asfortranarray(some(2, 3, 5, seed=6).astype(">f8")))
save("fortran_4d.npy", np.asfortranarray(some(2, 3, 5, 7, seed=7).astype("<f4")))
save("c_4d.npy", some(2, 3, 5, 7, seed=8).astype("<f4"))

# No axis, one, and axes of length zero.
save("scalar.npy", np.array(-2.5, dtype="<f8"))
save("vector.npy", some(7, seed=9).astype("<f4"))
save("zero_rows.npy", np.zeros((0, 5), dtype="<f4"))
save("zero_columns.npy", np.zeros((2, 3, 0), dtype="<f2"))

# Versions 2 and 3 of the header.
for version in [(2, 0), (3, 0)]:
    with open(FOLDER / f"version{version[0]}.npy", "wb") as file:
        np.lib.format.write_array(file, some(3, 5, seed=10).astype("<f4"), version=version)
    record(f"version{version[0]}.npy", f"version{version[0]}", np.load(FOLDER / f"version{version[0]}.npy"))

# bf16: np.save writes voids, and the values are those ml_dtypes had.
bf16 = some(3, 5, seed=11).astype(ml_dtypes.bfloat16)
np.save(FOLDER / "bf16_void.npy", bf16)
back = np.load(FOLDER / "bf16_void.npy")
assert back.dtype.kind == "V" and back.dtype.itemsize == 2
record("bf16_void.npy", "bf16_void", back.view(ml_dtypes.bfloat16))

# Several arrays: stored, deflated, bf16 within.
arrays = {
    "q": some(2, 3, 5, 7, seed=12).astype("<f2"),
    "k_fortran": np.asfortranarray(some(5, 7, seed=13).astype("<f4")),
    "mask": np.tril(np.ones((5, 5), dtype=bool)),
    "bf16": bf16,
    "empty": np.zeros((0, 3), dtype="<f8"),
    "layer3.v": some(11, seed=14).astype(">f8"),
}
for file, write in [("stored.npz", np.savez), ("deflated.npz", np.savez_compressed)]:
    write(FOLDER / file, **arrays)
    with np.load(FOLDER / file) as loaded:
        for name in sorted(arrays):
            array = loaded[name]
            fortran = array.flags.f_contiguous and not array.flags.c_contiguous
            if array.dtype.kind == "V":
                array = array.view(ml_dtypes.bfloat16)
            record(file, name, array, "F" if fortran else "C")

arrays = {
    "q": some(2, 3, 5, 7, seed=15).astype("<f2"),
    "bf16": bf16,
    "f32": some(3, 5, seed=16).astype("<f4"),
    "f64": some(3, 5, seed=17),
    "mask": np.tril(np.ones((5, 5), dtype=bool)),
    "empty": np.zeros((3, 0), dtype="<f4"),
    "scalar": np.array(3.25, dtype="<f4"),
}
for code in ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]:
    arrays[code] = np.array([[0, 1, np.iinfo(code).max >> 11 if code[1] == "8" else np.iinfo(code).max]], dtype=code)
safetensors.numpy.save_file(arrays, FOLDER / "all.safetensors")
for name, array in sorted(safetensors.numpy.load_file(FOLDER / "all.safetensors").items()):
    record("all.safetensors", name, array)

# What must be refused, made by the libraries themselves.
np.save(FOLDER / "refused_object.npy", np.array([{"a": 1}, None], dtype=object), allow_pickle=True)
np.save(FOLDER / "refused_structured.npy", np.zeros(3, dtype=[("a", "<f4"), ("b", "<i8")]))
np.save(FOLDER / "refused_complex.npy", np.zeros(3, dtype="<c8"))
np.save(FOLDER / "refused_text.npy", np.array(["q", "key"]))
np.savez(FOLDER / "refused_object.npz", q=np.ones((2, 3)), bad=np.array([{"a": 1}], dtype=object))
safetensors.numpy.save_file({"f8": np.zeros(3, dtype=ml_dtypes.float8_e4m3fn)}, FOLDER / "refused_f8.safetensors")
# An archive of another tool's making: two members of one name, and one that is no array.
buffer = io.BytesIO()
np.save(buffer, np.ones(3))
with zipfile.ZipFile(FOLDER / "refused_twice.npz", "w") as archive:
    archive.writestr(zipfile.ZipInfo("q.npy"), buffer.getvalue())
    archive.writestr(zipfile.ZipInfo("q.npy"), buffer.getvalue())
with zipfile.ZipFile(FOLDER / "refused_pickle.npz", "w") as archive:
    archive.writestr(zipfile.ZipInfo("archive/data.pkl"), b"\x80\x02}q\x00.")

with open(FOLDER / "values.csv", "w", newline="") as file:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["file", "name", "type", "order", "shape", "entries"])
    writer.writerows(rows)


def nearest(x, digits, least, largest):
    """The bits of x in a format of `digits` binary digits, normal from 2^least on, finite up to below 2^(largest + 1)."""
    exact, exponent_bits = Fraction(abs(x)), 16 - digits
    step = Fraction(2) ** (least - digits + 1)
    exponent = least
    while exact >= step * 2**digits:
        step, exponent = step * 2, exponent + 1
    count, rest = divmod(exact, step)
    count = int(count) + (rest * 2 > step or (rest * 2 == step and count % 2 == 1))
    # Counting on over the end of a binade gives the first number of the next, and over the last binade infinity.
    bits = count + (exponent - least) * 2 ** (digits - 1)
    bits = min(bits, (2**exponent_bits - 1) * 2 ** (digits - 1))
    return bits | (0x8000 if np.signbit(x) else 0)


draw = np.random.default_rng(18)
numbers = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, 65504.0, 65519.999999999, 65520.0, 1e308, 5e-324, -5e-324, 2.0**-25, 2.0**-134]
numbers += list(draw.standard_normal(100) * 2.0 ** draw.integers(-30, 18, 100))
numbers += list(draw.standard_normal(100) * 2.0 ** draw.integers(-140, 130, 100))
# Half way between two halves, exactly and by less than f32 can tell: what rounding twice gets wrong.
for digits, exponents in [(11, (-26, 17)), (8, (-135, 128))]:
    for _ in range(60):
        middle = float(int(draw.integers(2 ** (digits - 1), 2**digits)) * 2 + 1) * 2.0 ** (int(draw.integers(*exponents)) - digits)
        numbers += [middle, np.nextafter(middle, np.inf), np.nextafter(middle, 0.0), -middle]
with open(FOLDER / "rounding.csv", "w", newline="") as file:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["number", "f16", "bf16"])
    for x in map(float, numbers):
        f16 = nearest(x, 11, -14, 15) if np.isfinite(x) else 0x7C00 | (0x8000 if x < 0 else 0)
        bf16 = nearest(x, 8, -126, 127) if np.isfinite(x) else 0x7F80 | (0x8000 if x < 0 else 0)
        with np.errstate(over="ignore", under="ignore"):
            assert np.float16(x).view(np.uint16) == f16, (x, f16)  # NumPy rounds once
        writer.writerow([repr(x), f16, bf16])
