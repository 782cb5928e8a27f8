"""Models, views and tensors."""

from __future__ import annotations

import ctypes as c
import difflib
import json
import os
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Callable, Optional, Union

from . import _lib
from ._files import Files
from ._lib import call, strings

if TYPE_CHECKING:
    import numpy
    import torch as _torch

ORIGINS = {1: "model", 2: "cache", 3: "memory"}
CACHE = {"read": 0, "off": 1, "read-write": 2}
# Types of numbers, by what safetensors calls them: NumPy's, and the name of torch's.
NUMBERS: dict[str, tuple[str, str]] = {
    "F64": ("<f8", "float64"), "F32": ("<f4", "float32"), "F16": ("<f2", "float16"), "BF16": ("bfloat16", "bfloat16"),
    "F8_E4M3": ("float8_e4m3fn", "float8_e4m3fn"), "F8_E5M2": ("float8_e5m2", "float8_e5m2"), "I64": ("<i8", "int64"), "I32": ("<i4", "int32"),
    "I16": ("<i2", "int16"), "I8": ("|i1", "int8"), "U8": ("|u1", "uint8"), "U16": ("<u2", "uint16"), "U32": ("<u4", "uint32"),
    "U64": ("<u8", "uint64"), "BOOL": ("|b1", "bool"), "C64": ("<c8", "complex64"),
}  # fmt: skip
WIDTHS = dict(F64=8, F32=4, F16=2, BF16=2, F8_E4M3=1, F8_E5M2=1, I64=8, I32=4, I16=2, I8=1, U8=1, U16=2, U32=4, U64=8, BOOL=1, C64=8)


class _Loader:
    """A model that is open in the library, for as long as anything holds it."""

    def __init__(self, name: str, options: _lib.OpenOptions):
        self.address = call("open_with", name.encode(), c.byref(options))
        self.end = weakref.finalize(self, _lib.quietly, "close", self.address)
        self.end.atexit = False

    def close(self) -> None:
        if self.end.alive:
            call("close", self.address)  # fails while tensors are alive
            self.end.detach()

    def __call__(self) -> int:
        if not self.end.alive:
            raise _lib.Invalid("the model is closed")
        return self.address


class Model(Mapping):
    """A model that is open: its views by name, ``m["f16"]`` or ``m.f16``."""

    def __init__(self, name: str, **options: Any):
        self._opened = (name, options)
        self._loader = _Loader(name, _options(**options))
        info = call("get_model", self._loader()).contents
        self.format, self.path, self.architecture, self.layout = (getattr(info, f).decode() for f in ("format", "path", "architecture", "layout"))
        self.views: tuple[str, ...] = tuple(strings("views", self._loader()))
        self.files = Files(self._loader)

    @property
    def config(self) -> dict[str, Any]:
        """config.json of the tree: one schema for all formats."""
        return json.loads(self.files["config.json"].read())

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The metadata of the model's files, by its own keys."""
        return json.loads(self.files["metadata.json"].read())

    def __getitem__(self, view: str) -> View:
        if view not in self.views and view not in ("hf", "mlx"):
            raise KeyError(f"{view!r}: no such view; there are {', '.join(self.views)}, hf and mlx")
        return View(self, view)

    def __getattr__(self, name: str) -> View:
        view = name.replace("_", "-")
        if name.startswith("_") or view not in (*self.__dict__.get("views", ()), "hf", "mlx"):
            raise AttributeError(name)
        return View(self, view)

    def __iter__(self) -> Iterator[str]:
        return iter(self.views)

    def __len__(self) -> int:
        return len(self.views)

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def absent(self, view: str, name: str) -> Optional[str]:
        """Why a view lacks a tensor; None if it has it."""
        why = call("absent", self._loader(), view.encode(), name.encode())
        return why.decode() if why else None

    def load(
        self, view: str, names: Optional[Iterable[str]] = None, progress: Optional[Callable[[int, int], None]] = None, cache: str = "read", workers: int = 0
    ) -> dict[str, Tensor]:
        """Loads tensors of a view with all cores: what stands in files is mapped and read ahead, the rest converted into few buffers.

        progress is called with bytes done and in all; what it raises ends the load. cache is "read", "off" or "read-write": whether converted tensors
        are taken from tensorfs's cache on disk, or put there."""
        wanted = list(self[view] if names is None else names)
        address = _load(self._loader, view, wanted, progress, CACHE[cache], workers)
        return {name: Tensor(self, view, name, _Set.of(self._loader, address)) for name in wanted}

    def close(self) -> None:
        """Ends the use of the model. It is a BufferError while tensors are alive; without close the model ends when they do."""
        self._loader.close()

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> Any:
        name, options = self._opened
        return _reopen, (name, options)

    def __repr__(self) -> str:
        return f"<tensorfs.Model {self.path!r}, {self.format}, {self.architecture or 'of no known architecture'}>"

    def _repr_html_(self) -> str:
        from ._html import model

        return model(self)


def _refs(view: str, names: Iterable[str]) -> Any:
    """An array of tensors, as functions of the library take it."""
    refs = [_lib.Ref(view.encode(), name.encode()) for name in names]
    return (_lib.Ref * len(refs))(*refs)


def _load(loader: _Loader, view: str, names: list[str], report: Optional[Callable[[int, int], None]], cache: int, workers: int) -> int:
    """Loads a set in a thread of its own, so that Ctrl-C ends it, and returns its address."""
    refs = _refs(view, names)
    raised: list[BaseException] = []
    got: list[Any] = []

    def run() -> None:
        options = _lib.LoadOptions(c.sizeof(_lib.LoadOptions), cache, workers, 0, _lib.progress(report, raised))
        try:
            got.append(call("load", loader(), refs, len(names), c.byref(options)))
        except BaseException as e:  # noqa: BLE001  it is raised below
            raised.append(e)
        finally:
            ended.set()

    ended = threading.Event()  # Thread.join forgets the thread when a signal ends it
    threading.Thread(target=run, name="tensorfs load", daemon=True).start()
    try:
        while not ended.wait(0.1):
            pass
    except BaseException as e:  # Ctrl-C: the next call of progress ends it
        raised.append(e)
        ended.wait()
        if got:
            _lib.quietly("set_release", got[0])
    if raised:
        raise raised[0]
    return got[0]


def _reopen(name: str, options: dict[str, Any]) -> Model:
    return Model(name, **options)


def _options(
    views: Optional[Iterable[str]] = None, offline: bool = False, cache: Union[str, os.PathLike, None] = None, cache_size: int = 0,
    max_memory: int = 0, i2s: Optional[str] = None, lora: Optional[Iterable[Union[str, os.PathLike]]] = None,
) -> _lib.OpenOptions:  # fmt: skip
    o = _lib.OpenOptions(c.sizeof(_lib.OpenOptions), 1, remote=1, offline=int(offline), cache_size=cache_size, max_memory=max_memory)
    if views is not None:
        names = [v.encode() for v in views]
        o.views, o.n_views = (c.c_char_p * len(names))(*names), len(names)
    o.cache_dir = os.fsencode(cache) if cache is not None else None
    o.i2s = i2s.encode() if i2s else None
    if lora is not None:
        adapters = [os.fsencode(a) for a in lora]
        o.lora, o.n_lora = (c.c_char_p * len(adapters))(*adapters), len(adapters)
    return o


class View(Mapping):
    """The tensors of one view, by canonical name or by the name in the model's files."""

    def __init__(self, model: Model, name: str):
        self.model, self.name = model, name

    def __len__(self) -> int:
        return call("count", self.model._loader(), self.name.encode())

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    @property
    def _names(self) -> dict[str, None]:
        """The names in their order, asked for once."""
        known = self.model.__dict__.setdefault("_names", {})
        if self.name not in known:
            known[self.name] = dict.fromkeys(strings("names", self.model._loader(), self.name.encode()))
        return known[self.name]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (self._has(name) or name in self._sources)

    def _has(self, name: str) -> bool:
        known = self.model.__dict__.get("_names", {}).get(self.name)
        if known is not None:
            return name in known
        return bool(call("has", self.model._loader(), self.name.encode(), name.encode()))

    @property
    def _sources(self) -> dict[str, str]:
        """Names in the model's files, and the tensors that they are."""
        known = self.model.__dict__.setdefault("_source_names", {})
        if self.name not in known:
            tensors = [self[name] for name in self]
            known[self.name] = {t.source_name: t.name for t in tensors if t.source_name is not None}
        return known[self.name]

    def __getitem__(self, name: str) -> Tensor:
        if self._has(name):
            return Tensor(self.model, self.name, name)
        if name in self._sources:
            return Tensor(self.model, self.name, self._sources[name])
        why = self.model.absent(self.name, name)
        near = difflib.get_close_matches(name, list(self._names), 3)
        raise _lib.Absent(f"{why}; near: {', '.join(near)}" if near else why)

    def __repr__(self) -> str:
        return f"<tensorfs.View {self.name!r} of {self.model.path!r}: {len(self)} tensors>"


class _Set:
    """Tensors that were loaded together, until none of them is alive."""

    sets: weakref.WeakValueDictionary[int, _Set] = weakref.WeakValueDictionary()
    lock = threading.Lock()

    def __init__(self, loader: _Loader, address: int):
        self.loader, self.address = loader, address
        weakref.finalize(self, _lib.quietly, "set_release", address).atexit = False

    @classmethod
    def of(cls, loader: _Loader, address: int) -> _Set:
        with cls.lock:
            found = cls.sets.get(address)
            if found is None:
                found = cls.sets[address] = _Set(loader, address)
            return found


class Tensor:
    """A tensor of a view. Nothing is mapped or converted before its numbers are asked for."""

    def __init__(self, model: Model, view: str, name: str, loaded: Optional[_Set] = None):
        self.model, self.view, self.name = model, view, name
        self._set = loaded
        self._info = call("info", model._loader(), view.encode(), name.encode()).contents
        self.dtype: str = self._info.dtype.decode()  # "F16", "BF16", "Q4_K", ...: as safetensors and ggml call it
        self.shape: tuple[int, ...] = tuple(self._info.shape[: self._info.rank])
        self.nbytes: int = self._info.bytes
        self._held: Any = None

    @property
    def source_name(self) -> Optional[str]:
        """The name in the model's files."""
        name = self._info.source_name
        return name.decode() if name is not None else None

    @property
    def sections(self) -> dict[str, tuple[str, int, int]]:
        """Parts of the bytes, such as the scales after the codes: dtype, offset and length by name."""
        return {s.name.decode(): (s.dtype.decode(), s.offset, s.bytes) for s in self._info.sections[: self._info.n_sections]}

    @property
    def quant(self) -> Optional[dict[str, Any]]:
        """How numbers are quantised, where the dtype does not say it: mode, bits, group_size."""
        i = self._info
        return dict(mode=i.quant_mode.decode(), bits=i.quant_bits, group_size=i.quant_group_size) if i.quant_mode else None

    @property
    def origin(self) -> str:
        """Where the bytes are from: "model" and "cache" are mapped files, "memory" was converted for this process."""
        return ORIGINS[self._memory()._origin]

    @property
    def plain(self) -> bool:
        """Whether the bytes are numbers of a type that NumPy and torch have, in the tensor's shape."""
        n = WIDTHS.get(self.dtype, 0)
        for side in self.shape:
            n *= side
        return self.dtype in WIDTHS and n == self.nbytes

    def _memory(self) -> Any:
        """The bytes as an array of ctypes, which keeps all alive that they need."""
        if self._held is None:
            name = (self.view.encode(), self.name.encode())
            got = call("set_get", self._set.address, *name) if self._set else call("get", self.model._loader(), *name)
            held = got.contents
            size = held.info.contents.bytes
            memory = (c.c_ubyte * size).from_address(held.data) if size else (c.c_ubyte * 0)()
            memory._origin = held.origin
            memory._alive = self._set or self.model._loader
            if self._set is None:
                weakref.finalize(memory, _release, c.addressof(held), self.model._loader).atexit = False
            self._held = memory
        return self._held

    def memoryview(self) -> memoryview:
        """The bytes, read-only and without a copy."""
        return memoryview(self._memory()).cast("B").toreadonly()

    __buffer__ = memoryview  # Python 3.12 on: memoryview(t)

    def read(self, first: int = 0, end: Optional[int] = None, into: Any = None) -> Any:
        """Rows [first, end) of the first dimension into writable memory of the caller, or a new bytearray: nothing else is converted, and nothing kept."""
        rows = self.shape[0] if self.shape else 1
        end = rows if end is None else end
        if not 0 <= first <= end <= rows:
            raise _lib.Invalid(f"rows {first} to {end} of {self.view}/{self.name}, which has {rows}")
        whole = first == 0 and end == rows
        size = self.nbytes if whole else self.nbytes // max(rows, 1) * (end - first)
        into = bytearray(size) if into is None else into
        target = memoryview(into).cast("B")
        array = (c.c_ubyte * len(target)).from_buffer(target) if len(target) else None
        call("read", self.model._loader(), self.view.encode(), self.name.encode(), first, end, array and c.addressof(array), len(target))
        return into

    @property
    def mapped(self) -> bool:
        """Whether the bytes stand in a file, so that numpy() and torch() copy nothing. Nothing is read to know it."""
        if self._held is not None:
            return self.origin != "memory"
        return all_mapped(self.model, self.view, [self.name])

    @property
    def __array_interface__(self) -> dict[str, Any]:
        kind = NUMBERS[self.dtype][0] if self.plain else "|u1"
        if kind[0] not in "<|":
            raise AttributeError(f"NumPy has no {self.dtype}")
        memory = self._memory()
        shape = self.shape if self.plain else (self.nbytes,)
        return dict(version=3, shape=shape, typestr=kind, data=(c.addressof(memory) if self.nbytes else 0, True) if self.nbytes else memoryview(b""))

    def numpy(self) -> numpy.ndarray:
        """A read-only array without a copy. BF16 and F8 need the package ml_dtypes. Of quantised types: their bytes."""
        import numpy

        flat = numpy.frombuffer(self.memoryview(), numpy.uint8) if self.nbytes else numpy.empty(0, numpy.uint8)
        return numpy_of(flat, self)

    def torch(self, copy: bool = False) -> _torch.Tensor:
        """A tensor of torch without a copy: to write into it is a fault where it is mapped, so training wants copy=True."""
        import torch

        if copy:
            flat = torch.empty(self.nbytes, dtype=torch.uint8)
            if self.nbytes:
                self.read(into=(c.c_ubyte * self.nbytes).from_address(flat.data_ptr()))
            return torch_of(flat, self)
        return torch_of(torch.frombuffer(self._memory(), dtype=torch.uint8) if self.nbytes else torch.empty(0, dtype=torch.uint8), self)

    def mlx(self) -> Any:
        """An array of MLX, which copies."""
        import mlx.core as mx

        if self.plain and self.dtype == "BF16":
            return mx.array(memoryview(self._memory()).cast("B").cast("H")).view(mx.bfloat16).reshape(self.shape)
        return mx.array(self.numpy())

    def __dlpack__(self, **options: Any) -> Any:
        return self.torch().__dlpack__(**options) if self.dtype == "BF16" else self._writable().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def _writable(self) -> Any:
        """NumPy's array for DLPack, whose version 0 cannot say that it is read-only."""
        import numpy

        return numpy_of(numpy.frombuffer(self._memory(), numpy.uint8) if self.nbytes else numpy.empty(0, numpy.uint8), self)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a tensor without dimensions has no length")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<tensorfs.Tensor {self.view}/{self.name}, {self.dtype} {list(self.shape)}, {self.nbytes:,} bytes>"

    def _repr_html_(self) -> str:
        from ._html import tensor

        return tensor(self)


def all_mapped(model: Model, view: str, names: Iterable[str]) -> bool:
    """Whether the bytes of all of these stand in files, in one call."""
    refs = _refs(view, names)
    plan = call("plan", model._loader(), refs, len(refs))
    try:
        return plan.contents.memory == 0
    finally:
        call("plan_release", plan)


def _release(address: int, loader: _Loader) -> None:
    """Releases a tensor. The loader comes along so that it is closed after."""
    _lib.quietly("release", address)


def numpy_of(flat: numpy.ndarray, t: Tensor, shape: Optional[tuple[int, ...]] = None) -> numpy.ndarray:
    """Bytes as the numbers that a tensor has."""
    if not t.plain:
        return flat
    kind: Any = NUMBERS[t.dtype][0]
    if kind[0] not in "<|":
        try:
            import ml_dtypes
        except ImportError:
            raise TypeError(f"NumPy has no {t.dtype}: install ml_dtypes, or take torch(), or the view f32") from None
        kind = getattr(ml_dtypes, kind)
    return flat.view(kind).reshape(t.shape if shape is None else shape)


def torch_of(flat: _torch.Tensor, t: Tensor, shape: Optional[tuple[int, ...]] = None) -> _torch.Tensor:
    """Bytes as the numbers that a tensor has."""
    import torch

    if not t.plain:
        return flat
    return flat.view(getattr(torch, NUMBERS[t.dtype][1])).reshape(t.shape if shape is None else shape)
