"""libtensorfs: where it is, its functions and structs (tensorfs.h), and its errors as exceptions."""

from __future__ import annotations

import ctypes as c
import ctypes.util
import importlib
import os
import sys
import threading
from pathlib import Path
from typing import Any, Callable, Optional, Union

OLDEST = 1_003_000  # the version whose functions are used here


class Error(OSError):
    """What the library or the model says; one line."""


class NotFound(Error, FileNotFoundError):
    """There is no such model, or a file of it is missing."""


class Malformed(Error, ValueError):
    """The model breaks the rules of its format."""


class Unsupported(Error, NotImplementedError):
    """The model is valid, but cannot be served here."""


class Changed(Error):
    """The model changed, or its mount is gone: open it again."""


class NoMemory(Error, MemoryError):
    """It would take more memory than there is."""


class Forked(Error, RuntimeError):
    """This process is a fork of one that uses tensorfs."""


class Absent(Error, KeyError):
    """The model has no such view or tensor."""

    __str__ = Error.__str__  # without KeyError's quotation marks


class Invalid(Error, ValueError):
    """An argument makes no sense."""


class OutOfRange(Invalid, IndexError):
    """An index past the end of a tensor."""


class Closed(Invalid):
    """The model was closed."""


IN_USE, CANCELLED = 11, 10
KINDS: dict[int, type[BaseException]] = {
    2: Invalid, 3: Absent, 4: NotFound, 5: Malformed, 6: Unsupported, 7: Changed, 9: NoMemory, CANCELLED: KeyboardInterrupt, IN_USE: BufferError, 12: Forked,
}  # fmt: skip


class _Error(c.Structure):
    _fields_ = [("status", c.c_int), ("text", c.c_char_p)]


_Failure = c.POINTER(_Error)


class OpenOptions(c.Structure):
    _fields_ = [
        ("size", c.c_size_t), ("device", c.c_int), ("metal_device", c.c_void_p), ("views", c.POINTER(c.c_char_p)), ("n_views", c.c_size_t),
        ("offset_align", c.c_uint64), ("tail_pad", c.c_uint64), ("max_memory", c.c_uint64), ("cache_dir", c.c_char_p), ("cache_limit", c.c_uint64),
        ("i2s", c.c_char_p), ("tree_only", c.c_int), ("remote", c.c_int), ("offline", c.c_int), ("cache_size", c.c_int64),
        ("lora", c.POINTER(c.c_char_p)), ("n_lora", c.c_size_t), ("options", c.POINTER(c.c_char_p)), ("n_options", c.c_size_t),
    ]  # fmt: skip


Progress = c.CFUNCTYPE(c.c_int, c.c_uint64, c.c_uint64, c.c_void_p)


class LoadOptions(c.Structure):
    _fields_ = [("size", c.c_size_t), ("cache", c.c_int), ("workers", c.c_int), ("resident", c.c_int), ("progress", Progress), ("context", c.c_void_p)]


class Section(c.Structure):
    _fields_ = [("name", c.c_char_p), ("dtype", c.c_char_p), ("offset", c.c_uint64), ("bytes", c.c_uint64)]


class Info(c.Structure):
    _fields_ = [
        ("view", c.c_char_p), ("name", c.c_char_p), ("dtype", c.c_char_p), ("engine_dtype", c.c_int), ("bytes", c.c_uint64), ("rank", c.c_size_t),
        ("shape", c.POINTER(c.c_int64)), ("n_sections", c.c_size_t), ("sections", c.POINTER(Section)),
        ("quant_mode", c.c_char_p), ("quant_bits", c.c_int), ("quant_group_size", c.c_int), ("source_name", c.c_char_p),
    ]  # fmt: skip


class Held(c.Structure):
    """tensorfs_tensor"""

    _fields_ = [
        ("data", c.c_void_p), ("buffer", c.c_void_p), ("buffer_offset", c.c_uint64), ("origin", c.c_int), ("file", c.c_char_p), ("info", c.POINTER(Info)),
    ]  # fmt: skip


class ModelInfo(c.Structure):
    _fields_ = [("format", c.c_char_p), ("path", c.c_char_p), ("architecture", c.c_char_p), ("layout", c.c_char_p)]


class Ref(c.Structure):
    _fields_ = [("view", c.c_char_p), ("name", c.c_char_p)]


class Plan(c.Structure):
    _fields_ = [("model", c.c_uint64), ("cache", c.c_uint64), ("memory", c.c_uint64)]  # and more


Strings, Text, Address, Count = c.POINTER(c.c_char_p), c.c_char_p, c.c_void_p, c.POINTER(c.c_size_t)
FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {  # what each gives, and takes before the error
    "open_with": (Address, [Text, c.POINTER(OpenOptions)]),
    "close": (c.c_int, [Address]),
    "get_model": (c.POINTER(ModelInfo), [Address]),
    "views": (Strings, [Address, Count]),
    "names": (Strings, [Address, Text, Count]),
    "count": (c.c_size_t, [Address, Text]),
    "has": (c.c_int, [Address, Text, Text]),
    "absent": (Text, [Address, Text, Text]),
    "info": (c.POINTER(Info), [Address, Text, Text]),
    "get": (c.POINTER(Held), [Address, Text, Text]),
    "get_private": (c.POINTER(Held), [Address, Text, Text]),
    "release": (c.c_int, [Address]),
    "plan": (c.POINTER(Plan), [Address, c.POINTER(Ref), c.c_size_t]),
    "plan_release": (c.c_int, [c.POINTER(Plan)]),
    "load": (Address, [Address, c.POINTER(Ref), c.c_size_t, c.POINTER(LoadOptions)]),
    "set_get": (c.POINTER(Held), [Address, Text, Text]),
    "set_release": (c.c_int, [Address]),
    "read": (c.c_int, [Address, Text, Text, c.c_int64, c.c_int64, Address, c.c_uint64]),
    "files": (Strings, [Address, Text, Count]),
    "file_size": (c.c_int64, [Address, Text]),
    "file_read": (c.c_int64, [Address, Text, c.c_int64, Address, c.c_uint64]),
}

_library: Optional[c.CDLL] = None
_functions: dict[str, Any] = {}  # of the library, once it is loaded
_lock = threading.Lock()
forked = False  # whether this process is a fork of one that has the library: there it refuses every call


def _in_child() -> None:
    """Threads that held locks are not there in a child."""
    global forked, _lock
    forked, _lock = _library is not None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


def _places() -> list[str]:
    ending = ".1.dylib" if sys.platform == "darwin" else ".so.1"
    given, here = os.environ.get("TENSORFS_LIBRARY"), Path(__file__).resolve().parent
    if given:
        return [given]
    found = ctypes.util.find_library("tensorfs")
    return [str(p) for p in (here / f"native/libtensorfs{ending}", here.parents[1] / f"dist/capi/lib/libtensorfs{ending}") if p.exists()] + ([found] if found else [])


def library() -> c.CDLL:
    """The library, loaded on first use."""
    global _library
    with _lock:
        if _library is None:
            _library = _load()
        return _library


def _load() -> c.CDLL:
    if sys.platform == "linux" and not _is_glibc():
        raise ImportError("tensorfs: the library, which is written in Go, does not load beside musl; the command works here: python -m tensorfs --help")
    if not _is_main_interpreter():
        raise ImportError("tensorfs: only the main interpreter of a process can use the library")
    places = _places()
    if not places:
        raise ImportError("tensorfs: libtensorfs is not installed; install the wheel, or run scripts/build-capi and set TENSORFS_LIBRARY to its libtensorfs.so.1")
    loaded = c.CDLL(places[0])
    try:
        version = loaded.tensorfs_version()
    except AttributeError:
        raise ImportError(f"tensorfs: {places[0]} is not libtensorfs") from None
    if version < OLDEST:
        raise ImportError(f"tensorfs: {places[0]} is version {version // 1_000_000}.{version // 1000 % 1000}, and {OLDEST // 1_000_000}.{OLDEST // 1000 % 1000} is needed")
    for name, (result, arguments) in FUNCTIONS.items():
        f = getattr(loaded, "tensorfs_" + name)
        f.restype, f.argtypes = result, [*arguments, c.POINTER(_Failure)]
        _functions[name] = f
    loaded.tensorfs_error_free.argtypes = [_Failure]
    return loaded


def _is_main_interpreter() -> bool:
    """ctypes runs callbacks, such as progress, in the main interpreter, whichever interpreter called the library."""
    for name in ("_interpreters", "_xxsubinterpreters"):  # from Python 3.13 on, and before
        try:
            interpreters = importlib.import_module(name)
        except ImportError:
            continue
        return interpreters.get_current() == interpreters.get_main()
    return True


def _is_glibc() -> bool:
    try:
        return bool(os.confstr("CS_GNU_LIBC_VERSION"))
    except (ValueError, OSError):
        return False


def encoded(text: Union[str, bytes], what: str) -> bytes:
    """A name as the library takes it: UTF-8, with surrogates for bytes that are not UTF-8, as in Python's paths."""
    try:
        name = text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise Invalid(f"{what} {text!r}: it has a surrogate that stands for no byte") from None
    if b"\0" in name:
        raise Invalid(f"{what} {decoded(name)!r}: it has a NUL byte, which no path and no name has")
    return name


def decoded(name: bytes) -> str:
    """A name that the library returns; the reverse of encoded."""
    return name.decode("utf-8", "surrogateescape")


def path(name: Union[str, bytes, os.PathLike], what: str) -> bytes:
    """A path of the system as the library takes it, or the name of a model."""
    try:
        return encoded(os.fsencode(name), what)
    except UnicodeEncodeError:
        raise Invalid(f"{what} {name!r}: it has a surrogate that stands for no byte") from None


def call(name: str, *arguments: Any) -> Any:
    """Calls a function of tensorfs.h, and raises its error. The GIL is released during the call."""
    if _library is None:
        library()
    error = _Failure()
    result = _functions[name](*arguments, c.byref(error))
    if error:
        status, text = error.contents.status, error.contents.text.decode(errors="replace")
        library().tensorfs_error_free(error)
        raise KINDS.get(status, Error)(text)
    return result


def quietly(name: str, address: int) -> None:
    """Releases an object. A forked child cannot release it; the parent does."""
    try:
        call(name, address)
    except Error:
        pass


def progress(report: Optional[Callable[[int, int], None]], raised: list[BaseException]) -> Any:
    """A progress function. An exception that it raises ends the load, and so does one that is put into the list."""

    def told(done: int, total: int, _: Any) -> int:
        try:
            if report:
                report(done, total)
        except BaseException as e:  # noqa: BLE001  a callback must not raise into C
            raised.append(e)
        return 1 if raised else 0

    return Progress(told)
