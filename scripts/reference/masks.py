# /// script
# requires-python = ">=3.9"
# dependencies = ["numpy"]
# ///
"""Writes the mask files that the tests read: python masks.py FOLDER.

Each is made as people make it in NumPy or PyTorch (tril, triu(diagonal=1), where(keep, 0, -1e9), …)."""

import sys
from pathlib import Path

import numpy as np

folder = Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
i, j = np.arange(7)[:, None], np.arange(7)[None, :]
lower = np.tril(np.ones((7, 7), bool))


def save(name, array):
    np.save(folder / f"{name}.npy", array)


save("causal_keep_bool", lower)
save("causal_hide_bool", np.triu(np.ones((7, 7), bool), 1))
bottom_right = np.tril(np.ones((5, 11), bool), 11 - 5)
save("causal_additive_f32", np.where(bottom_right, 0, -1e9).astype("f4"))
save("causal_additive_inf", np.where(np.tril(np.ones((5, 11), bool)), 0, -np.inf).astype(">f8"))
save("window_int", (lower & (j > i - 4)).astype("i8"))
save("padding_row", np.array([[1, 1, 1, 1, 0, 0, 0]], "u1"))
save("documents", np.asfortranarray((i < 3) == (j < 3)))
save("random", np.array([[1, 0, 1, 0], [0, 1, 1, 0], [1, 1, 0, 1]], bool))
save("strict", np.tril(np.ones((7, 7), bool), -1))
save("alibi", (-0.5 * np.abs(i - j)).astype("f2"))
with np.errstate(all="ignore"):
    save("nan_f16", np.triu(np.ones((4, 4), "f2"), 1) * np.float16(-1e9))
save("several", np.ones((2, 3, 3), bool))
