"""Indices of a part of a tensor, as safetensors takes them."""

from __future__ import annotations

import operator
from typing import Any

from . import _lib
from ._model import Tensor


def checked(index: Any, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """An index with one integer or slice for each dimension. It refuses what safetensors refuses, in the same words, because programs look at them; slices
    with negative numbers, which safetensors lacks, work like NumPy's."""
    if isinstance(index, list):
        if index:
            raise _lib.Invalid("Non empty lists are not implemented")
        index = slice(0, 0)
    items = list(index) if isinstance(index, tuple) else [index]
    ellipses = [at for at, i in enumerate(items) if i is ...]
    if len(ellipses) > 1:
        raise _lib.Invalid("Only one ellipsis (...) is allowed in slice index")
    for at in ellipses:
        items[at : at + 1] = [slice(None)] * (len(shape) - len(items) + 1)
    items = [_part(i, dim, shape) for dim, i in enumerate(items)]
    if wrong := _wrong(items, shape):
        raise _lib.OutOfRange(f"Error during slicing [{', '.join(map(_text, items))}] with shape {list(shape)}: {wrong}")
    return tuple(items)


def _part(i: Any, dim: int, shape: tuple[int, ...]) -> Any:
    if isinstance(i, slice):
        if i.step is not None and i.step == 0:
            raise _lib.Invalid("Slice step must be a positive integer, got 0")
        return i
    size = shape[dim] if dim < len(shape) else 0
    try:
        number = operator.index(i)
    except TypeError:
        raise _lib.Invalid(f"Unsupported slice index at position {dim}: expected slice, int, or ellipsis") from None
    if number + size < 0:
        raise _lib.OutOfRange(f"Invalid index {number} for dimension {dim} of size {size}")
    return number + size if number < 0 else number


def _wrong(items: list[Any], shape: tuple[int, ...]) -> str:
    if len(items) > len(shape):
        return "more slicing indexes than dimensions in tensor"
    for dim, i in reversed(list(enumerate(items))):
        size = shape[dim]
        first, end = (i.start or 0, size if i.stop is None else i.stop) if isinstance(i, slice) else (i, i + 1)
        if min(first, end) < 0 or isinstance(i, slice) and (i.step or 1) < 0 or first == end == size == 0:
            continue
        if first >= size or end > size:
            return f"index {first if first >= size else end - 1} out of bounds for tensor dimension #{dim} of size {size}"
    return ""


def _text(i: Any) -> str:
    if not isinstance(i, slice):
        return str(i)
    step = "" if i.step in (None, 1) else f":{i.step}"
    return f"{'' if i.start is None else i.start}:{'' if i.stop is None else i.stop}{step}"


def packed(index: tuple[Any, ...], t: Tensor) -> tuple[Any, ...]:
    """An index of numbers as an index of bytes, if each byte in the last dimension holds two numbers."""
    if any(i is not ... and (isinstance(i, bool) or not isinstance(i, (int, slice))) for i in index) or index.count(...) > 1:
        raise _lib.Unsupported(f"{t!r}: tensors of this type can be sliced with integers and slices")
    missing = len(t.shape) - sum(i is not ... for i in index)
    at = index.index(...) if ... in index else len(index)
    index = (*index[:at], *[slice(None)] * missing, *index[at + 1 :])
    if len(index) != len(t.shape):
        raise _lib.OutOfRange(f"{len(index)} indices of {len(t.shape)} dimensions")
    last = index[-1]
    begin, end, step = last.indices(t.shape[-1]) if isinstance(last, slice) else (1, 1, 1)
    if begin % 2 or end % 2 or step != 1:
        raise _lib.Unsupported(f"{t!r}: two of its numbers are a byte, so the last dimension can be sliced from an even index to an even one, without a step")
    return (*index[:-1], slice(begin // 2, max(end, begin) // 2))
