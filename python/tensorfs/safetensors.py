"""The package safetensors' safe_open and load_file for any model, with the names of hf/, which transformers wants.

Their errors are both tensorfs' and safetensors' errors, so ``except SafetensorError`` works. A missing file is a FileNotFoundError, as in safetensors.
"""

from __future__ import annotations

import json
import os
import weakref
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Callable, NamedTuple, Optional, Union

from . import _lib
from ._files import File
from ._index import checked, packed
from ._model import NUMBERS, Model, Tensor, View, all_mapped, numpy_of, torch_of
from ._prefetch import Delivered, Plan, PrefetchLoader, Rows, Work, rows_of, threads_of

_THREADS = 4
_PAGE = 4096
_BACKENDS = ("mmap", "pread")
_FRAMEWORKS = {"pt": "pt", "torch": "pt", "pytorch": "pt", "np": "np", "numpy": "np"}


@lru_cache(maxsize=None)
def safetensor_error() -> type[Exception]:
    """The package safetensors' SafetensorError, or a class of this package if safetensors is not installed."""
    try:
        from safetensors import SafetensorError
    except ImportError:
        return type("SafetensorError", (Exception,), {"__module__": "tensorfs", "__doc__": "An error of safe_open and its like."})
    return SafetensorError


@lru_cache(maxsize=None)
def _both(kind: type[_lib.Error]) -> type[_lib.Error]:
    """A kind of error that is a SafetensorError too. Unpickled in another process it is only the kind."""
    return type(kind.__name__, (kind, safetensor_error()), {"__module__": kind.__module__, "__reduce__": lambda e: (kind, e.args)})


@contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except _lib.NotFound:
        raise
    except _lib.Error as e:
        if isinstance(e, safetensor_error()):
            raise
        raise _both(type(e))(*e.args).with_traceback(e.__traceback__) from None


def _done(task: tuple[str, Future]) -> tuple[str, Any]:
    return task[0], task[1].result()


class _Named:
    """Tensors by their Hugging Face names."""

    def __init__(self, model: Union[Model, str, os.PathLike], framework: str, device: Any, backend: str = "mmap", copy: bool = False, **options: Any):
        if framework not in _FRAMEWORKS:
            raise _lib.Invalid(f"framework is {framework!r}; there are pt and np")
        if backend not in _BACKENDS:
            raise _lib.Invalid(f"backend is {backend!r}; there are {' and '.join(_BACKENDS)}")
        self.framework, self.device, self.copy = _FRAMEWORKS[framework], device, copy or backend == "pread"
        self.strict = self.framework == "np" or backend == "pread"  # where safetensors slices itself, and does not ask torch
        self.model = model if isinstance(model, Model) else _opened(model, options)
        self.headers: Optional[list[dict[str, Any]]] = None
        bare = self.model.format == "safetensors"  # there is no config.json, so tensors keep the file's names
        self.view: View = self.model["raw" if bare else "hf"]
        self.of = self.view._sources if bare else {name: name for name in self.view}
        if not self.of and not bare:
            why = json.loads(self.model.files["hf/tensorfs.json"].read()).get("reason")
            if why:
                raise _lib.Unsupported(f"{self.model.path}: there is no hf/ of it: {why}")

    def tensors(self) -> dict[str, Tensor]:
        return {name: self[name] for name in self.of}

    def __getitem__(self, name: str) -> Tensor:
        if name not in self.of:
            raise _lib.Absent(f"{self.model.path} does not contain tensor {name!r}")
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
        """The tensors' numbers, in order. Several threads convert or copy, a few tensors ahead of the caller, who may want one at a time; mapping is too
        little work for threads."""
        with _errors():
            if not self.copy and all_mapped(self.model, self.view.name, self.of.values()):
                yield from ((name, self.placed(self.mapped(t))) for name, t in tensors.items())
                return
            yield from self._converted(tensors)

    def _converted(self, tensors: dict[str, Tensor]) -> Iterator[tuple[str, Any]]:
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
        """A tensor's numbers in private memory: mapped if a file stores its bytes unchanged, else read or converted."""
        if not copy and t.mapped:
            return self.mapped(t)
        flat = self.empty(t.nbytes)
        t.read(into=flat if self.framework == "np" else flat.numpy())
        return (numpy_of if self.framework == "np" else torch_of)(flat, t)

    def get(self, t: Tensor) -> Any:
        return self.placed(self.whole(t, self.copy))

    def ahead(self, device: Any) -> Callable[[str, Rows], Any]:
        """The work of prefetching threads. If a tensor is mapped, they read its pages."""

        def get(name: str, rows: Rows) -> Any:
            t = self[name]
            if rows is not None:
                return self.placed(self.rows(t, *rows), device)
            got = self.whole(t, self.copy)
            if t.nbytes > _PAGE and not self.copy and t.mapped:
                import numpy

                numpy.frombuffer(t._memory(), numpy.uint8)[::_PAGE].max()
            return self.placed(got, device)

        return get

    def placed(self, got: Any, device: Any = None) -> Any:
        device = self.device if device is None else device
        return got if self.framework == "np" or device in (None, "cpu") else got.to(device)


def _opened(model: Union[str, os.PathLike], options: dict[str, Any]) -> Model:
    try:
        return Model(model, **options)
    except _lib.NotFound:
        if ":" in os.fsdecode(model) or os.path.exists(model):
            raise
        raise _lib.NotFound(f"No such file or directory: {os.fsdecode(model)}") from None  # as programs know it from safetensors


class Slice:
    """A part of a tensor: slice[2:5] converts only these rows.

    As in safetensors, torch slices are clipped at the end; NumPy slices, and slices with backend="pread", raise an error past it."""

    def __init__(self, named: _Named, name: str):
        self._named, self._tensor = named, named[name]

    def get_shape(self) -> list[int]:
        return list(self._tensor.shape)

    def get_dtype(self) -> str:
        return self._tensor.dtype

    def __getitem__(self, index: Any) -> Any:
        with _errors():
            return self._get(index)

    def _get(self, index: Any) -> Any:
        t, named = self._tensor, self._named
        if not t.plain:
            raise _lib.Unsupported(f"{t!r}: these bytes are not numbers row by row, which a slice could take: get_tensor returns them")
        if named.strict:
            index = checked(index, t.shape)
        index = index if isinstance(index, tuple) else (index,)
        if NUMBERS[t.dtype].bits < 8 and named.framework == "pt":
            index = packed(index, t)
        first = index[0] if index else slice(None)
        if not t.shape or isinstance(first, bool) or not isinstance(first, (int, slice)):
            return named.get(t)[index]
        rows = t.shape[0]
        if isinstance(first, int):
            at = first + rows if first < 0 else first
            if not 0 <= at < rows:
                raise _lib.OutOfRange(f"row {first} of {rows}")
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


def _header(file: File) -> Optional[dict[str, Any]]:
    """The header of a safetensors file, whatever its name is; None for another file."""
    start = file.read(0, 9)
    size = int.from_bytes(start[:8], "little")
    if start[8:] != b"{" or size > file.size - 8:
        return None
    try:
        header = json.loads(file.read(8, size))
    except ValueError:  # not UTF-8, or not JSON
        return None
    return header if all("data_offsets" in x for name, x in header.items() if name != "__metadata__") else None


class TensorMeta(NamedTuple):
    """A tensor's entry in the file's header."""

    dtype: str
    shape: list[int]
    data_offsets: tuple[int, int]


class safe_open:  # noqa: N801  the name of what it stands in for
    """safetensors.safe_open for any model: ``with safe_open("model.gguf", "pt") as f: f.get_tensor(name)``.

    backend is "mmap", or "pread" to read files instead of mapping them."""

    def __init__(self, filename: Union[Model, str, os.PathLike], framework: str = "pt", device: Any = "cpu", *, backend: str = "mmap", **options: Any):
        self._open: Optional[_Named] = None
        self._begun: Optional[tuple[Work, weakref.finalize]] = None  # the work of prefetch's threads, from which get_tensor takes tensors if the loader is gone
        with _errors():
            self._open = _Named(filename, framework, device, backend, **options)

    @property
    def _named(self) -> _Named:
        if self._open is None:
            raise _both(_lib.Closed)("the file is closed: its with block has ended")
        return self._open

    def keys(self) -> list[str]:
        return sorted(self._named.of)

    def offset_keys(self) -> list[str]:
        """The names, in the order of the tensors' bytes in the file."""
        order = {name: (i, *x["data_offsets"]) for i, header in enumerate(self._headers) for name, x in header.items() if name != "__metadata__"}
        return sorted(self._named.of, key=lambda name: order.get(name, (0, 0)))

    def metadata(self) -> Optional[dict[str, str]]:
        return self._headers[0].get("__metadata__") if self._headers else None

    @property
    def _headers(self) -> list[dict[str, Any]]:
        """The headers of the safetensors files, read once."""
        named = self._named
        if named.headers is None:
            with _errors():
                files = named.model.files
                if named.model.format == "safetensors":  # a file of any name
                    paths = ["source/" + name for name in files.list("source/") if not name.endswith("/")]
                else:
                    paths = ["hf/" + name for name in files.list("hf/") if name.endswith(".safetensors")]
                named.headers = [header for header in map(_header, map(files.__getitem__, paths)) if header is not None]
        return named.headers

    def get_tensor(self, name: str) -> Any:
        with _errors():
            named, work = self._named, self._begun and self._begun[0]
            if work and work.users == {"file"} and work.plan.get(name, ()) is None:  # it is prefetched whole, and no loader will hand it out
                try:
                    return work.take(name)
                except Delivered:
                    pass
            return named.get(named[name])

    def get_tensors(self) -> dict[str, Any]:
        """All tensors, in the order of offset_keys."""
        with _errors():
            return dict(self._named.all({name: self._named[name] for name in self.offset_keys()}))

    def get_slice(self, name: str) -> Slice:
        with _errors():
            return Slice(self._named, name)

    def get_tensor_meta(self, name: str) -> TensorMeta:
        """The type, shape and place in the file of a tensor."""
        with _errors():
            t = self._named[name]
        place = next((header[name]["data_offsets"] for header in self._headers if name in header), (0, t.nbytes))
        return TensorMeta(t.dtype, list(t.shape), (place[0], place[1]))

    def prefetch(self, plan: Optional[Plan] = None, *, device: Any = None, threads: Optional[int] = None) -> PrefetchLoader:
        """Starts threads that read and convert the tensors needed next, and returns the loader that hands them out: :meth:`PrefetchLoader.take`, or iterating.

        plan maps each name to None or to a slice of rows, such as this rank's rows; without a plan all tensors are read, which needs memory for all of them.
        device is where they go, by default the file's device. The interface is safetensors 0.9's, for any format, framework and device."""
        named = self._named
        with _errors():
            if plan is None:
                wanted: dict[str, Rows] = dict.fromkeys(self.offset_keys())
            else:
                planned = rows_of(plan, lambda name: named[name].shape)
                wanted = {name: planned[name] for name in self.offset_keys() if name in planned}
            for name, rows in wanted.items():
                if rows and not named[name].plain:
                    raise _lib.Unsupported(f"{named[name]!r}: these bytes are not numbers row by row: use None in the prefetch plan")
            work = Work(named.ahead(device), wanted, threads_of(threads, _THREADS))
        self._forget()
        self._begun = work, weakref.finalize(self, work.drop, "file")
        self._begun[1].atexit = False
        return PrefetchLoader(work, _errors)

    def _forget(self) -> None:
        if self._begun:
            self._begun[1]()
            self._begun = None

    def __enter__(self) -> safe_open:
        return self

    def __exit__(self, *_: object) -> None:
        """Closes this object. The model is closed when the last tensor is freed."""
        self._forget()
        self._open = None


def load_file(
    filename: Union[Model, str, os.PathLike], device: Any = "cpu", framework: str = "pt", copy: bool = False,
    progress: Optional[Callable[[int, int], None]] = None, *, backend: str = "mmap", **options: Any,
) -> dict[str, Any]:  # fmt: skip
    """All tensors of a model as safetensors.torch.load_file returns them, whatever the model is stored as.

    They are writable, and writing changes neither the file nor another tensor. Bytes that files store unchanged are mapped, and a page is copied when it
    is written to; ``copy=True`` and ``backend="pread"`` read them. ``framework`` is "pt" or "np". progress is called with the bytes done and the total."""
    with _errors():
        named = _Named(filename, framework, device, backend, copy, **options)
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
    """The tensors of load_file one after the other, as engines' loaders take them: if they are converted or copied, few are in memory at a time."""
    with _errors():
        named = _Named(model, framework, device, backend, copy, **options)
        return named.all(named.tensors())
