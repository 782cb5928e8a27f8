"""Models, views and tensors."""

from __future__ import annotations

import ctypes as c
import difflib
import json
import math
import os
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Optional, Union

from . import _lib
from ._files import Files
from ._lib import call, decoded, encoded

if TYPE_CHECKING:
    import numpy
    import torch as _torch

ORIGINS = {1: "model", 2: "cache", 3: "memory"}
CACHE = {"read": 0, "off": 1, "read-write": 2}


class Numbers(NamedTuple):
    """A safetensors type in other libraries."""

    bits: int
    numpy: str  # as NumPy writes it, or its name in ml_dtypes
    torch: str
    format: str = ""  # of memoryviews, which cannot be cast to the other types

    @property
    def known(self) -> bool:
        """Whether NumPy has the type without ml_dtypes."""
        return self.numpy[0] in "<|"


NUMBERS: dict[str, Numbers] = {
    "F64": Numbers(64, "<f8", "float64", "d"), "F32": Numbers(32, "<f4", "float32", "f"), "F16": Numbers(16, "<f2", "float16"),
    "BF16": Numbers(16, "bfloat16", "bfloat16"), "F8_E4M3": Numbers(8, "float8_e4m3fn", "float8_e4m3fn"),
    "F8_E5M2": Numbers(8, "float8_e5m2", "float8_e5m2"), "F8_E8M0": Numbers(8, "float8_e8m0fnu", "float8_e8m0fnu"),
    "F8_E4M3FNUZ": Numbers(8, "float8_e4m3fnuz", "float8_e4m3fnuz"), "F8_E5M2FNUZ": Numbers(8, "float8_e5m2fnuz", "float8_e5m2fnuz"),
    "F4": Numbers(4, "float4_e2m1fn", "float4_e2m1fn_x2"), "I64": Numbers(64, "<i8", "int64", "q"), "I32": Numbers(32, "<i4", "int32", "i"),
    "I16": Numbers(16, "<i2", "int16", "h"), "I8": Numbers(8, "|i1", "int8", "b"), "U8": Numbers(8, "|u1", "uint8", "B"),
    "U16": Numbers(16, "<u2", "uint16", "H"), "U32": Numbers(32, "<u4", "uint32", "I"), "U64": Numbers(64, "<u8", "uint64", "Q"),
    "BOOL": Numbers(8, "|b1", "bool", "?"), "C64": Numbers(64, "<c8", "complex64"),
}  # fmt: skip


class _Loader:
    """A model that is open in the library, for as long as anything holds it."""

    def __init__(self, name: Union[str, bytes, os.PathLike], options: _lib.OpenOptions):
        self.name = os.fsdecode(name)
        self._address = call("open_with", _lib.path(name, "the model"), c.byref(options))
        self._end = weakref.finalize(self, _lib.quietly, "close", self._address)
        self._end.atexit = False
        self._lock = threading.RLock()
        self._calls: set[object] = set()  # that are running

    def close(self) -> None:
        if _lib.forked:
            call("close", self._address)  # refuses
        with self._lock:
            if self._calls:
                raise BufferError(f"{self.name}: calls about the model are running: close it after they have returned")
            if self._end.alive:
                call("close", self._address)  # fails while tensors are alive
                self._end.detach()

    def call(self, name: str, *arguments: Any, take: Callable[[Any], Any] = lambda got: got) -> Any:
        """Calls a function about the model. take copies what is needed from the result before the model can be closed."""
        if _lib.forked:
            call(name, self._address, *arguments)  # refuses
        me = object()
        try:
            with self._lock:
                if not self._end.alive:
                    raise _lib.Closed(f"{self.name}: the model is closed")
                self._calls.add(me)
            return take(call(name, self._address, *arguments))
        finally:
            self._calls.discard(me)

    def strings(self, name: str, *arguments: Any) -> list[str]:
        """Calls a function that returns a list of strings."""
        count = c.c_size_t()
        return self.call(name, *arguments, c.byref(count), take=lambda found: [_lib.decoded(s) for s in found[: count.value]] if found else [])


class Model(Mapping):
    """A model that is open: its views by name, ``m["f16"]`` or ``m.f16``."""

    def __init__(self, name: Union[str, bytes, os.PathLike], **options: Any):
        self._opened = (os.fsdecode(name), options)
        self._loader = _Loader(name, _options(**options))
        about = self._loader.call("get_model", take=lambda m: (m.contents.format, m.contents.architecture, m.contents.layout, m.contents.path))
        self.format, self.architecture, self.layout = map(decoded, about[:3])
        self.path = os.fsdecode(about[3])
        self.views: tuple[str, ...] = tuple(self._loader.strings("views"))
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
        return self._loader.call("absent", *_named(view, name), take=lambda why: decoded(why) if why else None)

    def load(
        self, view: str, names: Optional[Iterable[str]] = None, progress: Optional[Callable[[int, int], None]] = None, cache: str = "read", workers: int = 0
    ) -> dict[str, Tensor]:
        """Loads a view's tensors with all cores: bytes that files store unchanged are mapped and read ahead, the rest is converted into few
        buffers.

        progress is called with the bytes done and the total; an exception that it raises ends the load. cache is "read", "off" or
        "read-write": whether converted tensors are taken from tensorfs's cache on disk, or put there."""
        wanted = list(self[view] if names is None else names)
        loaded = _Set(self._loader, _load(self._loader, view, wanted, progress, CACHE[cache], workers))
        return {name: Tensor(self, view, name, loaded) for name in wanted}

    @property
    def _first(self) -> View:
        """The stored tensors, or else the first view."""
        return self["raw" if "raw" in self.views else self.views[0] if self.views else "hf"]

    def table(self, view: Optional[str] = None) -> list[dict[str, Any]]:
        """A view's tensors, one dictionary each, as ``pandas.DataFrame(m.table())`` takes them. The default is the stored tensors."""
        return [
            dict(
                name=t.name, source_name=t.source_name, dtype=t.dtype, shape=t.shape, elements=math.prod(t.shape), bytes=t.nbytes,
                quant=t.quant and t.quant["mode"], bits=t.quant and t.quant["bits"], group_size=t.quant and t.quant["group_size"],
            )
            for t in (self._first if view is None else self[view]).values()
        ]  # fmt: skip

    def close(self) -> None:
        """Closes the model. It raises BufferError while tensors are alive; without close, the model is closed when its last tensor is."""
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


def _named(view: str, name: str) -> tuple[bytes, bytes]:
    return encoded(view, "the view"), encoded(name, "the tensor")


def _refs(view: str, names: Iterable[str]) -> Any:
    """An array of tensors, as functions of the library take it."""
    refs = [_lib.Ref(*_named(view, name)) for name in names]
    return (_lib.Ref * len(refs))(*refs)


def _load(loader: _Loader, view: str, names: list[str], report: Optional[Callable[[int, int], None]], cache: int, workers: int) -> int:
    """Loads a set in a separate thread, so that Ctrl-C ends it, and returns its address."""
    refs = _refs(view, names)
    raised: list[BaseException] = []
    got: list[Any] = []

    def run() -> None:
        options = _lib.LoadOptions(c.sizeof(_lib.LoadOptions), cache, workers, 0, _lib.progress(report, raised))
        try:
            got.append(loader.call("load", refs, len(names), c.byref(options)))
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
    max_memory: int = 0, i2s: Optional[str] = None, lora: Optional[Iterable[Union[str, os.PathLike]]] = None, **convert: Any,
) -> _lib.OpenOptions:  # fmt: skip
    o = _lib.OpenOptions(c.sizeof(_lib.OpenOptions), 1, remote=1, offline=int(offline), cache_size=cache_size, max_memory=max_memory)
    if views is not None:
        names = [encoded(v, "the view") for v in views]
        o.views, o.n_views = (c.c_char_p * len(names))(*names), len(names)
    o.cache_dir = _lib.path(cache, "the cache") if cache is not None else None
    o.i2s = encoded(i2s, "i2s") if i2s else None
    if lora is not None:
        adapters = [_lib.path(a, "the adapter") for a in lora]
        o.lora, o.n_lora = (c.c_char_p * len(adapters))(*adapters), len(adapters)
    texts = [encoded(text, name) for name, value in convert.items() for text in _option(name, value)]
    if texts:
        o.options, o.n_options = (c.c_char_p * len(texts))(*texts), len(texts)
    return o


def _option(name: str, value: Any) -> Iterator[str]:
    """An option of the program as the library takes it, "gguf-type=q4_k_m": a list or a dictionary gives it several times."""
    flag = name.replace("_", "-")
    if value is None or value is False:
        return
    if value is True:
        yield flag
    elif isinstance(value, Mapping):
        for key, v in value.items():
            if "=" in key:
                raise _lib.Invalid(f"{name}: the key {key!r} has an equals sign")
            yield f"{flag}={key}={'@' if isinstance(v, os.PathLike) else ''}{_written(v)}"
    elif isinstance(value, (list, tuple)):
        for v in value:
            yield f"{flag}={_written(v)}"
    else:
        yield f"{flag}={_written(value)}"


def _written(value: Any) -> str:
    """A value as a command line has it."""
    if isinstance(value, (bytes, os.PathLike)):
        return os.fsdecode(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


class View(Mapping):
    """The tensors of one view, by canonical name or by the name in the model's files."""

    def __init__(self, model: Model, name: str):
        self.model, self.name = model, name

    def __len__(self) -> int:
        return self.model._loader.call("count", encoded(self.name, "the view"))

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    @property
    def _names(self) -> dict[str, None]:
        """The names in order, requested once."""
        known = self.model.__dict__.setdefault("_names", {})
        if self.name not in known:
            known[self.name] = dict.fromkeys(self.model._loader.strings("names", encoded(self.name, "the view")))
        return known[self.name]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (self._has(name) or name in self._sources)

    def _has(self, name: str) -> bool:
        known = self.model.__dict__.get("_names", {}).get(self.name)
        if known is not None:
            return name in known
        return bool(self.model._loader.call("has", *_named(self.name, name)))

    @property
    def _sources(self) -> dict[str, str]:
        """Tensors by their names in the model's files."""
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

    def __init__(self, loader: _Loader, address: int):
        self.loader, self.address = loader, address
        weakref.finalize(self, _lib.quietly, "set_release", address).atexit = False


class Tensor:
    """A tensor of a view. Nothing is mapped or converted before its numbers are asked for."""

    def __init__(self, model: Model, view: str, name: str, loaded: Optional[_Set] = None):
        self.model, self.view, self.name = model, view, name
        self._set = loaded
        # All fields are copied: the library's memory is freed when the model is closed.
        self.dtype: str  # "F16", "BF16", "Q4_K", ...: as safetensors and ggml call it
        self.shape: tuple[int, ...]
        self.nbytes: int
        self.source_name: Optional[str]  # in the model's files
        self.sections: dict[str, tuple[str, int, int]]  # parts of the bytes, such as the scales after the codes: dtype, offset and length by name
        self.quant: Optional[dict[str, Any]]  # how numbers are quantised, if the dtype does not tell: mode, bits, group_size
        model._loader.call("info", *_named(view, name), take=self._describe)
        self._held: Any = None

    def _describe(self, info: Any) -> None:
        i = info.contents
        self.dtype, self.shape, self.nbytes = decoded(i.dtype), tuple(i.shape[: i.rank]), i.bytes
        self.source_name = decoded(i.source_name) if i.source_name is not None else None
        self.sections = {decoded(s.name): (decoded(s.dtype), s.offset, s.bytes) for s in i.sections[: i.n_sections]}
        self.quant = dict(mode=decoded(i.quant_mode), bits=i.quant_bits, group_size=i.quant_group_size) if i.quant_mode else None

    @property
    def origin(self) -> str:
        """Where the bytes come from: "model" and "cache" are mapped files, "memory" was converted for this process."""
        return ORIGINS[self._memory()._origin]

    @property
    def plain(self) -> bool:
        """Whether the bytes are numbers of a type that NumPy and torch have, in the tensor's shape."""
        known = NUMBERS.get(self.dtype)
        return known is not None and math.prod(self.shape) * known.bits == self.nbytes * 8

    def _memory(self) -> Any:
        """The bytes as a ctypes array, which keeps alive everything that they need."""
        if self._held is None:
            self._held = self._of_set() if self._set else self._get("get")
        return self._held

    def _of_set(self) -> Any:
        held = call("set_get", self._set.address, *_named(self.view, self.name)).contents
        return self._array(held, self._set)

    def _get(self, how: str) -> Any:
        held = self.model._loader.call(how, *_named(self.view, self.name)).contents
        memory = self._array(held, self.model._loader)
        weakref.finalize(memory, _release, c.addressof(held), self.model._loader).atexit = False
        return memory

    def _array(self, held: Any, alive: Any) -> Any:
        memory = (c.c_ubyte * self.nbytes).from_address(held.data) if self.nbytes else (c.c_ubyte * 0)()
        memory._origin, memory._alive = held.origin, alive
        return memory

    def _own(self) -> Any:
        """The bytes in private memory, as a writable ctypes array: mapped copy on write if a file stores them unchanged."""
        known = self._held if self._set is None else self._memory()
        if known is not None and ORIGINS[known._origin] == "memory":
            return (c.c_ubyte * self.nbytes).from_buffer_copy(known)  # it is converted already
        return self._get("get_private")

    def memoryview(self) -> memoryview:
        """The bytes, read-only and without a copy."""
        return memoryview(self._memory()).cast("B").toreadonly()

    def __buffer__(self, flags: int) -> memoryview:
        """memoryview(t), from Python 3.12 on: the numbers in their shape."""
        if not self.plain:
            return self.memoryview()
        kind = NUMBERS[self.dtype].format
        if not kind or not self.nbytes:
            raise BufferError(f"{self!r}: memoryviews have no such type or shape; its bytes are memoryview()")
        return self.memoryview().cast(kind, self.shape)  # type: ignore[call-overload]

    def read(self, first: int = 0, end: Optional[int] = None, into: Any = None) -> Any:
        """Reads rows [first, end) of the first dimension into the caller's writable memory, or into a new bytearray: no other row is converted."""
        rows = self.shape[0] if self.shape else 1
        end = rows if end is None else end
        if not 0 <= first <= end <= rows:
            raise _lib.Invalid(f"rows {first} to {end} of {self.view}/{self.name}, which has {rows}")
        whole = first == 0 and end == rows
        size = self.nbytes if whole else self.nbytes // max(rows, 1) * (end - first)
        into = bytearray(size) if into is None else into
        target = memoryview(into).cast("B")
        array = (c.c_ubyte * len(target)).from_buffer(target) if len(target) else None
        self.model._loader.call("read", *_named(self.view, self.name), first, end, array and c.addressof(array), len(target))
        return into

    @property
    def mapped(self) -> bool:
        """Whether a file stores the bytes unchanged, so that numpy() and torch() copy nothing. This reads nothing."""
        if self._held is not None:
            return self.origin != "memory"
        return all_mapped(self.model, self.view, [self.name])

    @property
    def __array_interface__(self) -> dict[str, Any]:
        known = NUMBERS[self.dtype] if self.plain else NUMBERS["U8"]
        if not known.known:
            raise AttributeError(f"NumPy has no {self.dtype}")  # and asks __array__
        memory = self._memory()
        shape = self.shape if self.plain else (self.nbytes,)
        return dict(version=3, shape=shape, typestr=known.numpy, data=(c.addressof(memory), True) if self.nbytes else memoryview(b""))

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> numpy.ndarray:
        """numpy.asarray(t) of the types that NumPy has from ml_dtypes."""
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            if copy is False:
                raise ValueError(f"{self!r} is no {dtype} without a copy")
            return array.astype(dtype)
        return array.copy() if copy else array

    def numpy(self) -> numpy.ndarray:
        """A read-only array without a copy. BF16, F8 and F4, which is unpacked, need the package ml_dtypes. Quantised types give their bytes."""
        import numpy

        array = numpy_of(numpy.frombuffer(self.memoryview(), numpy.uint8) if self.nbytes else numpy.empty(0, numpy.uint8), self)
        array.flags.writeable = False
        return array

    def _numpy_own(self) -> numpy.ndarray:
        """An array of private memory."""
        import numpy

        return numpy_of(numpy.frombuffer(self._own(), numpy.uint8) if self.nbytes else numpy.empty(0, numpy.uint8), self)

    def torch(self, copy: bool = False) -> _torch.Tensor:
        """A writable, private torch tensor. Bytes that a file stores unchanged are mapped, and a page is copied when it is written to; copy=True reads
        them instead."""
        import torch

        if copy:
            flat = torch.empty(self.nbytes, dtype=torch.uint8)
            if self.nbytes:
                self.read(into=(c.c_ubyte * self.nbytes).from_address(flat.data_ptr()))
            return torch_of(flat, self)
        return torch_of(torch.frombuffer(self._own(), dtype=torch.uint8) if self.nbytes else torch.empty(0, dtype=torch.uint8), self)

    def mlx(self) -> Any:
        """An array of MLX, which copies."""
        import mlx.core as mx

        if self.plain and self.dtype == "BF16":
            return mx.array(memoryview(self._memory()).cast("B").cast("H")).view(mx.bfloat16).reshape(self.shape)
        return mx.array(self.numpy())

    def __dlpack__(self, *, max_version: Optional[tuple[int, int]] = None, **options: Any) -> Any:
        """The tensor for numpy.from_dlpack, torch.from_dlpack and other readers: private memory, because torch also writes to read-only memory.
        With DLPack 1 and later it is marked read-only."""
        if max_version is not None:
            options["max_version"] = max_version
        if self.plain and not NUMBERS[self.dtype].known:
            try:
                return self.torch().__dlpack__(**options)
            except ImportError:
                raise BufferError(f"{self!r}: NumPy has no DLPack of this type: install torch") from None
        array = self._numpy_own()
        array.flags.writeable = max_version is None or max_version[0] < 1
        return array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

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
    """Whether files store the bytes of all these tensors unchanged, in one call."""
    refs = _refs(view, names)
    plan = model._loader.call("plan", refs, len(refs))
    try:
        return plan.contents.memory == 0
    finally:
        call("plan_release", plan)


def _release(address: int, loader: _Loader) -> None:
    """Releases a tensor. The loader is an argument so that it is closed afterwards."""
    _lib.quietly("release", address)


def numpy_of(flat: numpy.ndarray, t: Tensor, shape: Optional[tuple[int, ...]] = None) -> numpy.ndarray:
    """Bytes as the numbers that a tensor has."""
    if not t.plain:
        return flat
    known = NUMBERS[t.dtype]
    kind: Any = known.numpy
    if not known.known:
        try:
            import ml_dtypes

            kind = getattr(ml_dtypes, kind)
        except (ImportError, AttributeError):
            raise TypeError(f"NumPy has no {t.dtype}: install ml_dtypes, or take torch(), or the view f32") from None
    if known.bits == 4:  # two numbers a byte, the first in the lower half, as in torch; NumPy has one number a byte
        import numpy

        flat = numpy.stack([flat & 15, flat >> 4], -1)
    return flat.reshape(-1).view(kind).reshape(t.shape if shape is None else shape)


def torch_of(flat: _torch.Tensor, t: Tensor, shape: Optional[tuple[int, ...]] = None) -> _torch.Tensor:
    """Bytes as the numbers that a tensor has."""
    import torch

    if not t.plain:
        return flat
    shape = t.shape if shape is None else shape
    known = NUMBERS[t.dtype]
    kind = getattr(torch, known.torch, None)
    if kind is None:
        raise TypeError(f"torch {torch.__version__} has no {t.dtype}: install a newer one, or take the view f32")
    if known.bits == 4:
        if shape[-1] % 2:
            raise TypeError(f"{t!r}: torch packs two numbers of F4 into a byte, and the last dimension is odd")
        shape = (*shape[:-1], shape[-1] // 2)
    return flat.view(kind).reshape(shape)
