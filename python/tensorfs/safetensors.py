"""safe_open and load_file as the package safetensors has them, over any model: under the names of hf/, which transformers wants."""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Callable, Optional, Union

from . import _lib
from ._model import NUMBERS, Model, Tensor, View, all_mapped, numpy_of, torch_of

_THREADS = 4
_BACKENDS = ("mmap", "pread")
_FRAMEWORKS = {"pt": "pt", "torch": "pt", "pytorch": "pt", "np": "np", "numpy": "np"}


def _done(task: tuple[str, Future]) -> tuple[str, Any]:
    return task[0], task[1].result()


class _Named:
    """Tensors by the names that they have in the model for Hugging Face."""

    def __init__(self, model: Union[Model, str, os.PathLike], framework: str, device: Any, backend: str = "mmap", copy: bool = False, **options: Any):
        if framework not in _FRAMEWORKS:
            raise ValueError(f"framework is {framework!r}; there are pt and np")
        if backend not in _BACKENDS:
            raise ValueError(f"backend is {backend!r}; there are {' and '.join(_BACKENDS)}")
        self.framework, self.device, self.copy = _FRAMEWORKS[framework], device, copy or backend == "pread"
        self.model = model if isinstance(model, Model) else Model(model, **options)
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
        if t.nbytes % max(count, 1):  # rows of F4 that share a byte
            return self.whole(t, copy=True)[first:end]
        flat = self.empty(t.nbytes // max(count, 1) * (end - first))
        t.read(first, end, into=flat if self.framework == "np" else flat.numpy())
        return (numpy_of if self.framework == "np" else torch_of)(flat, t, shape)

    def all(self, tensors: dict[str, Tensor]) -> Iterator[tuple[str, Any]]:
        """The numbers of tensors, in their order. What has to be converted or copied is so by several threads, a few tensors ahead of the caller, who
        may want one at a time; mapping is too little work for them."""
        if not self.copy and all_mapped(self.model, self.view.name, self.of.values()):
            yield from ((name, self.placed(self.mapped(t))) for name, t in tensors.items())
            return
        pool, ahead = ThreadPoolExecutor(_THREADS), deque()
        try:
            for name, t in tensors.items():
                ahead.append((name, pool.submit(self.get, t)))
                if len(ahead) > _THREADS:
                    yield _done(ahead.popleft())
            while ahead:
                yield _done(ahead.popleft())
        finally:
            pool.shutdown(cancel_futures=True)  # Ctrl-C and errors wait for no more than what is being converted

    def mapped(self, t: Tensor) -> Any:
        return t._numpy_own() if self.framework == "np" else t.torch()

    def whole(self, t: Tensor, copy: bool) -> Any:
        """The numbers of a tensor in memory that nothing else sees: mapped where its bytes stand in a file, else read or converted."""
        if not copy and t.mapped:
            return self.mapped(t)
        flat = self.empty(t.nbytes)
        t.read(into=flat if self.framework == "np" else flat.numpy())
        return (numpy_of if self.framework == "np" else torch_of)(flat, t)

    def get(self, t: Tensor) -> Any:
        return self.placed(self.whole(t, self.copy))

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
        if not t.plain:
            raise _lib.Unsupported(f"{t!r}: these bytes are not numbers row by row, which a slice could take: get_tensor returns them")
        if NUMBERS[t.dtype].bits < 8 and named.framework == "pt":
            index = _packed(index, t)
        first = index[0] if index else slice(None)
        if not t.shape or isinstance(first, bool) or not isinstance(first, (int, slice)):
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
        if len(t.shape) == 1 and NUMBERS[t.dtype].bits < 8:  # its rows are parts of bytes
            return named.get(t)[index]
        return named.placed(named.rows(t, begin, end)[(kept, *index[1:])])


def _packed(index: tuple[Any, ...], t: Tensor) -> tuple[Any, ...]:
    """An index of numbers as one of bytes, of which each has two in the last dimension."""
    if any(i is not ... and (isinstance(i, bool) or not isinstance(i, (int, slice))) for i in index) or index.count(...) > 1:
        raise _lib.Unsupported(f"{t!r}: tensors of this type can be sliced with integers and slices")
    missing = len(t.shape) - sum(i is not ... for i in index)
    at = index.index(...) if ... in index else len(index)
    index = (*index[:at], *[slice(None)] * missing, *index[at + 1 :])
    if len(index) != len(t.shape):
        raise IndexError(f"{len(index)} indices of {len(t.shape)} dimensions")
    last = index[-1]
    begin, end, step = last.indices(t.shape[-1]) if isinstance(last, slice) else (1, 1, 1)
    if begin % 2 or end % 2 or step != 1:
        raise _lib.Unsupported(f"{t!r}: two of its numbers are a byte, so the last dimension can be sliced from an even index to an even one, without a step")
    return (*index[:-1], slice(begin // 2, max(end, begin) // 2))


class safe_open:  # noqa: N801  the name of what it stands in for
    """safetensors.safe_open for any model: ``with safe_open("model.gguf", "pt") as f: f.get_tensor(name)``.

    backend is "mmap", or "pread" to read what stands in files instead of mapping it."""

    def __init__(self, filename: Union[Model, str, os.PathLike], framework: str = "pt", device: Any = "cpu", *, backend: str = "mmap", **options: Any):
        self._open: Optional[_Named] = _Named(filename, framework, device, backend, **options)

    @property
    def _named(self) -> _Named:
        if self._open is None:
            raise _lib.Closed("the file is closed: its with block has ended")
        return self._open

    def keys(self) -> list[str]:
        return sorted(self._named.of)

    def offset_keys(self) -> list[str]:
        """The names in the order of their bytes in the file."""
        order = {name: (i, *x["data_offsets"]) for i, header in enumerate(self._headers()) for name, x in header.items() if name != "__metadata__"}
        return sorted(self._named.of, key=lambda name: order.get(name, (0, 0)))

    def metadata(self) -> Optional[dict[str, str]]:
        headers = self._headers()
        return headers[0].get("__metadata__") if headers else None

    def _headers(self) -> list[dict[str, Any]]:
        files, headers = self._named.model.files, []
        directory = "source/" if self._named.model.format == "safetensors" else "hf/"
        names = files.list(directory)
        # A file that is opened by its content has any name, and is the only one.
        for name in names if directory == "source/" and len(names) == 1 else [n for n in names if n.endswith(".safetensors")]:
            file = files[directory + name]
            headers.append(json.loads(file.read(8, int.from_bytes(file.read(0, 8), "little"))))
        return headers

    def get_tensor(self, name: str) -> Any:
        return self._named.get(self._named[name])

    def get_tensors(self) -> dict[str, Any]:
        """All tensors, in the order of offset_keys."""
        return dict(self._named.all({name: self._named[name] for name in self.offset_keys()}))

    def get_slice(self, name: str) -> Slice:
        return Slice(self._named, name)

    def __enter__(self) -> safe_open:
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the use of this object. The model ends when the last tensor does."""
        self._open = None


def load_file(
    model: Union[Model, str, os.PathLike], device: Any = "cpu", framework: str = "pt", copy: bool = False,
    progress: Optional[Callable[[int, int], None]] = None, *, backend: str = "mmap", **options: Any,
) -> dict[str, Any]:  # fmt: skip
    """All tensors of a model as safetensors.torch.load_file returns them, whatever the model is stored as.

    They may be written to, which neither the file nor anything else sees. What stands in files is mapped, and a page is copied when it is written to;
    ``copy=True`` and ``backend="pread"`` read it. ``framework`` is "pt" or "np". progress is called with bytes done and in all."""
    named = _Named(model, framework, device, backend, copy, **options)
    tensors = named.tensors()
    total, done = sum(t.nbytes for t in tensors.values()), 0
    loaded = {}
    for name, got in named.all(tensors):
        loaded[name] = got
        done += tensors[name].nbytes
        if progress:
            progress(done, total)
    return loaded


def weights(
    model: Union[Model, str, os.PathLike], device: Any = "cpu", framework: str = "pt", copy: bool = False, *, backend: str = "mmap", **options: Any
) -> Iterator[tuple[str, Any]]:
    """The tensors of load_file one after the other, as loaders of engines take them: where they are converted or copied, few are in memory at a time."""
    named = _Named(model, framework, device, backend, copy, **options)
    return named.all(named.tensors())
