"""diffusers' loader of GGUF files on mounted models of testdata/images: the names, the sizes and the numbers are those of the source."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import common
import torch
from diffusers.models.model_loading_utils import load_gguf_checkpoint
from diffusers.quantizers.gguf.utils import dequantize_gguf_tensor
from safetensors.torch import load_file

PROGRAM = sys.argv[1]
# How far numbers may be from the source's, as a part of their length.
FAR = dict(source=0.001, q8_0=0.01, q5_k_m=0.06, q4_k_m=0.1, q2_k=0.4)


def original(file: Path) -> dict[str, torch.Tensor]:
    """The tensors of the denoiser in a file, without what their names begin with in a whole checkpoint."""
    tensors = load_file(file)
    for prefix in ("model.diffusion_model.", "net."):
        if any(name.startswith(prefix) for name in tensors):
            tensors = {name[len(prefix) :]: t for name, t in tensors.items() if name.startswith(prefix)}
    return {name: t for name, t in tensors.items() if "_extra_state" not in name and "accum_" not in name}


def wrong(file: Path, source: dict[str, torch.Tensor], far: float) -> str:
    loaded = {name: dequantize_gguf_tensor(t).float() for name, t in load_gguf_checkpoint(str(file)).items()}
    if names := sorted(loaded.keys() ^ source.keys()):
        return f"only one has {', '.join(names[:4])}"
    for name, tensor in loaded.items():
        want = source[name].float()
        if tensor.numel() != want.numel():  # of Stable Diffusion, shapes are folded
            return f"{name} has the shape {tuple(tensor.shape)}, and not {tuple(want.shape)}"
        if (apart := torch.linalg.vector_norm(tensor.flatten() - want.flatten())) > far * torch.linalg.vector_norm(want):
            return f"the numbers of {name} are {apart} apart"
    return ""


def main() -> None:
    only = [part for part in os.environ.get("ONLY", "").split("/") if part]
    root, seen = Path(os.environ["MODELS"]) / "images", Path(os.environ["MOUNTED"]) / "models/images"
    for file in sorted(root.glob("source/*.safetensors")):
        tensors = original(file)
        for source, far in FAR.items():
            if [file.stem, "any", source, PROGRAM][: len(only)] != only:
                continue
            try:
                said = wrong(seen / source / file.stem / "gguf/model.gguf", tensors, far)
            except Exception as e:  # of the loader
                said = f"{type(e).__name__}: {e}"[-300:]
            common.tell(file.stem, "any", source, PROGRAM, checks=dict(load=said))


if __name__ == "__main__":
    main()
