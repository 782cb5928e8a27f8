"""safe_open and load_file as the package safetensors has them, over any model: under the names of hf/, which transformers wants."""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Callable, Optional, Union

from . import _lib
from ._model import Model, Tensor, View, all_mapped, numpy_of, torch_of

_THREADS = 4
_FRAMEWORKS = {"pt": "pt", "torch": "pt", "pytorch": "pt", "np": "np", "numpy": "np"}


def _done(task: tuple[str, Future]) -> tuple[str, Any]:
    return task[0], task[1].result()


class _Named:
    """Tensors by the names that they have in the model for Hugging Face."""

    def __init__(self, model: Union[Model, str, os.PathLike], framework: str, device: Any, **options: Any):
        if framework not in _FRAMEWORKS:
            raise ValueError(f"framework is {framework!r}; there are pt and np")
        self.framework, self.device = _FRAMEWORKS[framework], device
        self.model = model if isinstance(model, Model) else Model(os.fspath(model), **options)
        self.owned = self.model is not model
        alone = self.model.format == "safetensors"  # no config.json says what model it is: its tensors are under its own names
        self.view: View = self.model["raw" if alone else "hf"]
        self.of = self.view._sources if alone else {name: name for name in self.view}
        if not self.of and not alone:
            why = json.loads(self.model.files["hf/tensorfs.json"].read()).get("reason")
            if why:
                raise _lib.Unsupported(f"{self.model.path}: there is no hf/ of it: {why}")

    def tensors(self) -> dict[str, Tensor]:
        return {name: self[name] for name in self.of}

    def __getitem__(self, name: str) -> Tensor:
        if name not in self.of:
            raise _lib.Absent(f"{self.model.path} has no tensor {name!r}")
        return self.view[self.of[name]]

    def empty(self, size: int) -> Any:
        """New memory, which the framework owns."""
        if self.framework == "np":
            import numpy

            return numpy.empty(size, numpy.uint8)
        import torch

        return torch.empty(size, dtype=torch.uint8)

    def rows(self, t: Tensor, first: int, end: int) -> Any:
        """Rows of a tensor, converted into new memory."""
        count = t.shape[0] if t.shape else 1
        shape = (end - first, *t.shape[1:]) if t.shape else ()
        flat = self.empty(t.nbytes // max(count, 1) * (end - first))
        t.read(first, end, into=flat if self.framework == "np" else flat.numpy())
        return (numpy_of if self.framework == "np" else torch_of)(flat, t, shape)

    def all(self, tensors: dict[str, Tensor], copy: bool = False) -> Iterator[tuple[str, Any]]:
        """The numbers of tensors, in their order. What has to be converted or copied is so by several threads, a few tensors ahead of the caller, who
        may want one at a time; mapping is too little work for them."""
        if not copy and all_mapped(self.model, self.view.name, self.of.values()):
            yield from ((name, self.placed(self.shown(t))) for name, t in tensors.items())
            return
        pool, ahead = ThreadPoolExecutor(_THREADS), deque()
        try:
            for name, t in tensors.items():
                ahead.append((name, pool.submit(self.get, t, copy)))
                if len(ahead) > _THREADS:
                    yield _done(ahead.popleft())
            while ahead:
                yield _done(ahead.popleft())
        finally:
            pool.shutdown(cancel_futures=True)  # Ctrl-C and errors wait for no more than what is being converted

    def shown(self, t: Tensor) -> Any:
        return t.numpy() if self.framework == "np" else t.torch()

    def get(self, t: Tensor, copy: bool = False) -> Any:
        """The numbers of a tensor: mapped where its bytes stand in a file, else converted into memory of its own."""
        if copy or not t.mapped:
            got = self.rows(t, 0, t.shape[0] if t.shape else 1) if t.plain else self._bytes(t)
        else:
            got = self.shown(t)
        return self.placed(got)

    def _bytes(self, t: Tensor) -> Any:
        flat = self.empty(t.nbytes)
        t.read(into=flat if self.framework == "np" else flat.numpy())
        return flat

    def placed(self, got: Any) -> Any:
        return got if self.framework == "np" or self.device in (None, "cpu") else got.to(self.device)


class Slice:
    """A part of a tensor: slice[2:5] converts these rows alone."""

    def __init__(self, named: _Named, name: str):
        self._named, self._tensor = named, named[name]

    def get_shape(self) -> list[int]:
        return list(self._tensor.shape)

    def get_dtype(self) -> str:
        return self._tensor.dtype

    def __getitem__(self, index: Any) -> Any:
        t, named = self._tensor, self._named
        index = index if isinstance(index, tuple) else (index,)
        first = index[0] if index else slice(None)
        if not t.shape or not t.plain or not isinstance(first, (int, slice)):
            return named.get(t)[index]
        rows = t.shape[0]
        if isinstance(first, int):
            at = first + rows if first < 0 else first
            if not 0 <= at < rows:
                raise IndexError(f"row {first} of {rows}")
            begin, end, kept = at, at + 1, 0
        else:
            begin, end, step = first.indices(rows)
            if step < 1:
                return named.get(t)[index]
            begin, end = min(begin, rows), max(end, min(begin, rows))
            kept = slice(None, None, step)
        return named.placed(named.rows(t, begin, end)[(kept, *index[1:])])


class safe_open:  # noqa: N801  the name of what it stands in for
    """safetensors.safe_open for any model: ``with safe_open("model.gguf", "pt") as f: f.get_tensor(name)``."""

    def __init__(self, filename: Union[Model, str, os.PathLike], framework: str = "pt", device: Any = "cpu", **options: Any):
        self._named = _Named(filename, framework, device, **options)

    def keys(self) -> list[str]:
        return sorted(self._named.of)

    def offset_keys(self) -> list[str]:
        """The names in the order of their bytes in the file."""
        order = {name: (i, x["data_offsets"][0]) for i, header in enumerate(self._headers()) for name, x in header.items() if name != "__metadata__"}
        return sorted(self._named.of, key=lambda name: order.get(name, (0, 0)))

    def metadata(self) -> Optional[dict[str, str]]:
        headers = self._headers()
        return headers[0].get("__metadata__") if headers else None

    def _headers(self) -> list[dict[str, Any]]:
        files, headers = self._named.model.files, []
        directory = "source/" if self._named.model.format == "safetensors" else "hf/"
        for name in files.list(directory):
            if name.endswith(".safetensors"):
                file = files[directory + name]
                headers.append(json.loads(file.read(8, int.from_bytes(file.read(0, 8), "little"))))
        return headers

    def get_tensor(self, name: str) -> Any:
        return self._named.get(self._named[name])

    def get_slice(self, name: str) -> Slice:
        return Slice(self._named, name)

    def __enter__(self) -> safe_open:
        return self

    def __exit__(self, *_: object) -> None:
        """The model ends when the last tensor does."""


def load_file(
    model: Union[Model, str, os.PathLike], device: Any = "cpu", framework: str = "pt", copy: bool = False,
    progress: Optional[Callable[[int, int], None]] = None, **options: Any,
) -> dict[str, Any]:  # fmt: skip
    """All tensors of a model as safetensors.torch.load_file returns them, whatever the model is stored as.

    What stands in files is mapped, and must not be written to: ``copy=True`` gives memory that may. ``framework`` is "pt" or "np". progress is called
    with bytes done and in all."""
    named = _Named(model, framework, device, **options)
    tensors = named.tensors()
    total, done = sum(t.nbytes for t in tensors.values()), 0
    loaded = {}
    for name, got in named.all(tensors, copy):
        loaded[name] = got
        done += tensors[name].nbytes
        if progress:
            progress(done, total)
    return loaded


def weights(model: Union[Model, str, os.PathLike], device: Any = "cpu", framework: str = "pt", copy: bool = False, **options: Any) -> Iterator[tuple[str, Any]]:
    """The tensors of load_file one after the other, as loaders of engines take them: where they are converted or copied, few are in memory at a time."""
    named = _Named(model, framework, device, **options)
    return named.all(named.tensors(), copy)
