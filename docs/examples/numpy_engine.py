"""Reads a tensor of a mounted model with NumPy: numpy_engine.py MOUNT NAME"""
import json
import sys

import numpy as np

mount, name = sys.argv[1:]

# A view made for NumPy: the file holds shape and dtype, pages are read on demand.
a = np.load(f"{mount}/npy/{name}.npy", mmap_mode="r")

# The same numbers as bare halves; index.json has the shape.
with open(f"{mount}/index.json") as f:
    entry = json.load(f)["views"]["f16"][name]
b = np.memmap(f"{mount}/f16/{name}", dtype="<f2", mode="r", shape=tuple(entry["shape"]))

assert a.shape == b.shape and (a.view("u2") == b.view("u2")).all()
print(name, a.shape, a.dtype, a.ravel()[:4], float(a.astype("f8").sum()))
