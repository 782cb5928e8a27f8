"""Maps a tensor of a mounted model for PyTorch: pytorch_engine.py MOUNT NAME"""
import json
import mmap
import sys

import torch

mount, name = sys.argv[1:]
with open(f"{mount}/index.json") as f:
    entry = json.load(f)["views"]["f16"][name]

# ACCESS_COPY: PyTorch wants writable memory. Pages are shared with all
# other readers until one is written; then only that page is copied.
with open(f"{mount}/f16/{name}", "rb") as f:
    pages = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_COPY)
t = torch.frombuffer(pages, dtype=torch.float16).reshape(entry["shape"])

print(name, tuple(t.shape), t.dtype, t.flatten()[:4], t.double().sum().item())
