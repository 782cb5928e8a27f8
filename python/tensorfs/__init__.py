"""Any model as tensors: GGUF, safetensors, Hugging Face and MLX directories, Ollama's store, on this machine or on a server.

>>> import tensorfs
>>> m = tensorfs.open(MODEL)
>>> q = m["f16"]["layers.0.attention.q.weight"]
>>> q.shape, q.dtype, q.numpy().dtype
((64, 64), 'F16', dtype('float16'))

Views have the same names as in a mount: ``raw`` has the stored bytes, ``f16``, ``bf16`` and ``f32`` have numbers, ``packed`` and ``fused`` have what
kernels take; ``hf`` and ``mlx`` have the names and types that transformers and mlx-lm want. Bytes that a file stores as they are needed are mapped;
all other bytes are converted on request. NumPy and torch are imported only by functions that return their arrays.
"""

from __future__ import annotations

import json as _json
import os
from collections.abc import Iterable, Mapping
from typing import Any, Optional, Union

from ._files import File, Files
from ._html import Report
from ._lib import Absent, Changed, Error, Forked, Invalid, Malformed, NoMemory, NotFound, Unsupported
from ._model import Model, Tensor, View
from ._prefetch import PrefetchLoader
from ._program import output as _output
from .safetensors import load_file, safe_open, weights
from .safetensors import safetensor_error as _safetensor_error

__version__ = "0.1.0"
__all__ = [
    "Absent", "Changed", "Error", "File", "Files", "Forked", "Invalid", "Malformed", "Model", "NoMemory", "NotFound",
    "PrefetchLoader", "Report", "SafetensorError", "Tensor", "Unsupported", "View", "diff", "load_file", "open", "report", "safe_open", "stat", "weights",
]  # fmt: skip


def open(
    model: Union[str, os.PathLike], views: Optional[Iterable[str]] = None, offline: bool = False, cache: Union[str, os.PathLike, None] = None,
    cache_size: int = 0, max_memory: int = 0, i2s: Optional[str] = None, lora: Optional[Iterable[Union[str, os.PathLike]]] = None,
    gguf_type: Optional[str] = None, pure: bool = False, tensor_type: Union[Mapping[str, str], Iterable[str], None] = None, requantise: bool = False,
    tensor_types_from: Union[str, os.PathLike, None] = None, imatrix: Union[str, os.PathLike, None] = None,
    mlx_bits: Union[int, str, None] = None, mlx_group: Union[int, str, None] = None,
    mlx_mode: Optional[str] = None, mlx_recipe: Optional[str] = None, mlx_device: Optional[str] = None, dequantise: bool = False,
    mmproj: Union[str, os.PathLike, None] = None, set: Optional[Mapping[str, Any]] = None, unset: Optional[Iterable[str]] = None,
) -> Model:  # fmt: skip
    """Opens a model: a path, or a name such as hf:ORG/NAME, ollama:NAME or https://HOST/PATH.

    lora lists adapters to apply, in order, as the program's --lora does: "DIR", "DIR:0.5" or "hf:ORG/NAME".

    views lists the views to open, like the program's option; offline=True asks no server; cache is the directory of converted tensors; cache_size is how
    many bytes remote models may take on the disk, and below 0 nothing is kept there; max_memory is how many bytes may be converted into memory.

    The other options have the names, values and messages of the program's: gguf_type="q4_k_m" (with pure, tensor_type, imatrix, requantise) sets the
    type of files["gguf/model.gguf"], and tensor_types_from is a GGUF file whose types it gets; mlx_bits=4 (with mlx_group, mlx_mode, mlx_recipe,
    mlx_device) sets the type of the view mlx and of files in mlx/; dequantise=True gives plain numbers in hf and mlx; mmproj is the vision tower's file,
    or "none"; set={"KEY": value} and unset=["KEY"] change keys, and a pathlib.Path as a value is a file with the text."""
    several = {"lora": lora, "tensor_type": tensor_type, "unset": unset}
    lists = {name: value if value is None or isinstance(value, (str, Mapping)) else list(value) for name, value in several.items()}
    return Model(
        model, views=views, offline=offline, cache=cache, cache_size=cache_size, max_memory=max_memory, i2s=i2s, gguf_type=gguf_type, pure=pure,
        requantise=requantise, tensor_types_from=tensor_types_from, imatrix=imatrix, mlx_bits=mlx_bits, mlx_group=mlx_group,
        mlx_mode=mlx_mode, mlx_recipe=mlx_recipe, mlx_device=mlx_device,
        dequantise=dequantise, mmproj=mmproj, set=set, **lists,
    )  # fmt: skip


def __getattr__(name: str) -> Any:
    if name == "SafetensorError":  # which imports safetensors, if it is installed
        return _safetensor_error()
    raise AttributeError(f"module 'tensorfs' has no attribute {name!r}")


def stat(model: Union[str, os.PathLike, Model], name: Optional[str] = None) -> Any:
    """The numbers of tensors, as ``tensorfs stat --json`` has them: least, greatest, mean, histogram, NaN."""
    return _json.loads(_output("stat", _named(model), *([name] if name else []), options=["--json", *_adapters(model), *_reading(model)]))


def diff(a: Union[str, os.PathLike, Model], b: Union[str, os.PathLike, Model]) -> Any:
    """What differs between two models, as ``tensorfs diff --json`` has it."""
    if _adapters(a):
        raise Invalid("adapters are applied only to the second model")
    return _json.loads(_output("diff", _named(a), _named(b), options=["--json", *_adapters(b), *_reading(a, b)], right=(0, 1)))


def report(model: Union[str, os.PathLike, Model], other: Union[str, os.PathLike, Model, None] = None) -> Report:
    """The page of ``tensorfs report``, which a notebook shows; it reads all tensors. With other, the page shows where the two models differ."""
    models = [model] if other is None else [model, other]
    if _adapters(model) != _adapters(models[-1]):
        raise Invalid("a report applies the same adapters to both models")
    return Report(_output("report", *map(_named, models), options=["--output=-", *_adapters(model), *_reading(*models)]).decode())


def _adapters(model: Union[str, os.PathLike, Model]) -> list[str]:
    adapters = model._opened[1].get("lora") or [] if isinstance(model, Model) else []
    return [f"--lora={os.fsdecode(a)}" for a in adapters]


def _reading(*models: Union[str, os.PathLike, Model]) -> list[str]:
    """The models' options, for code that reads them."""
    options: dict[str, Any] = {}
    for model in models:
        given = model._opened[1] if isinstance(model, Model) else {}
        options.update({name: given[name] for name in ("offline", "i2s") if given.get(name)})
    return [f"--{name}" if value is True else f"--{name}={value}" for name, value in options.items()]


def _named(model: Union[str, os.PathLike, Model]) -> Union[str, os.PathLike]:
    return model._opened[0] if isinstance(model, Model) else model
