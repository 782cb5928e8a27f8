"""vLLM's ``--load-format tensorfs``: weights of any model, with the names and types of hf/. Only vLLM imports this.

vLLM wants a directory for config.json and the tokenizer, which :func:`files` writes, and takes the weights from the model that the directory was made from::

    python -m tensorfs.vllm model.gguf DIRECTORY
    vllm serve DIRECTORY --load-format tensorfs

If the directory comes from elsewhere, ``--model-loader-extra-config '{"model": "hf:ORG/NAME-GGUF:Q4_K_M"}'`` names the model.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Union

from ._lib import Error, Invalid
from ._model import Model
from .safetensors import weights

NOTE = "tensorfs-model"  # in the directory: one line, the model that it was made from


def files(model: Union[str, os.PathLike, Model], directory: Union[str, os.PathLike]) -> None:
    """Writes all of hf/ except the weights, and the model's name, into a directory for the load format."""
    model = model if isinstance(model, Model) else Model(model)
    there = Path(directory)
    there.mkdir(parents=True, exist_ok=True)
    for name in model.files.list("hf"):
        if not name.endswith((".safetensors", ".safetensors.index.json", "/")):
            (there / name).write_bytes(model.files["hf/" + name].read())
    name = model._opened[0]
    (there / NOTE).write_bytes(os.fsencode(os.path.abspath(name) if os.path.exists(name) else name) + b"\n")


def source(directory: str, extra: Any) -> str:
    """The model whose weights belong to a directory of vLLM."""
    extra = dict(extra or {})
    named = extra.pop("model", None)
    if extra:
        raise Invalid(f"--model-loader-extra-config of the load format tensorfs has no {', '.join(map(repr, extra))}: it takes 'model'")
    if named:
        return named
    try:
        return os.fsdecode((Path(directory) / NOTE).read_bytes().removesuffix(b"\n"))
    except OSError:
        return directory


def register() -> None:
    """The entry point vllm.general_plugins calls this in every process of vLLM."""
    from vllm.model_executor.model_loader import register_model_loader
    from vllm.model_executor.model_loader.base_loader import BaseModelLoader

    @register_model_loader("tensorfs")
    class Loader(BaseModelLoader):
        def download_model(self, model_config: Any) -> None:
            """Nothing to do: bytes are fetched when they are read."""

        def load_weights(self, model: Any, model_config: Any) -> None:
            name = source(model_config.model, self.load_config.model_loader_extra_config)
            loaded = model.load_weights(weights(name))
            left = {n for n, _ in model.named_parameters()} - loaded if loaded is not None and model_config.quantization is None else ()
            if left:
                raise Error(f"{name} has no weights for {', '.join(sorted(left)[:5])}{f' and {len(left) - 5} more' * (len(left) > 5)}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("Usage: python -m tensorfs.vllm MODEL DIRECTORY")
    try:
        files(*sys.argv[1:])
    except Error as e:
        sys.exit(f"tensorfs: {e}")
