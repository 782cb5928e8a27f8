"""The files that a mount of a model has, without a mount."""

from __future__ import annotations

import ctypes as c
import io
from collections.abc import Iterator, Mapping
from typing import Any

from . import _lib
from ._lib import encoded


class Files(Mapping):
    """Files by path: "README", "hf/config.json", "gguf/model.gguf". Iterating yields all paths except the views' tensors."""

    def __init__(self, loader: Any):
        self._loader = loader

    def __getitem__(self, path: str) -> File:
        try:
            return File(self._loader, path, self._loader.call("file_size", encoded(path, "the file")))
        except _lib.Closed:
            raise
        except (_lib.NotFound, _lib.Invalid) as e:
            raise KeyError(str(e)) from None

    def list(self, directory: str = "") -> list[str]:
        """The names in a directory; a subdirectory's name ends with a slash."""
        return self._loader.strings("files", encoded(directory, "the directory"))

    def __iter__(self) -> Iterator[str]:
        views = {view + "/" for view in self._loader.strings("views")}
        yield from self._walk("", views)

    def _walk(self, directory: str, left_out: set[str] = frozenset()) -> Iterator[str]:  # type: ignore[assignment]
        for name in self.list(directory):
            if name in left_out:
                continue
            if name.endswith("/"):
                yield from self._walk(directory + name)
            else:
                yield directory + name

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, path: object) -> bool:
        try:
            return isinstance(path, str) and bool(self[path])
        except KeyError:
            return False


class File:
    """A file of the tree."""

    def __init__(self, loader: Any, path: str, size: int):
        self._loader, self.path, self.size = loader, path, size

    def read(self, offset: int = 0, n: int = -1) -> bytes:
        """n bytes from an offset on; without n, all remaining bytes."""
        n = max(min(n if n >= 0 else self.size, self.size - offset), 0)
        into = bytearray(n)
        self.readinto(into, offset)
        return bytes(into)

    def readinto(self, into: Any, offset: int = 0) -> int:
        """Fills writable memory from an offset on, and returns the number of bytes read."""
        target = memoryview(into).cast("B")
        if not len(target):
            return 0
        array = (c.c_ubyte * len(target)).from_buffer(target)
        return self._loader.call("file_read", encoded(self.path, "the file"), offset, c.addressof(array), len(target))

    def open(self) -> io.BufferedReader:
        """The file as a stream that seeks."""
        return io.BufferedReader(_Stream(self), 1 << 20)

    def __repr__(self) -> str:
        return f"<tensorfs.File {self.path!r}, {self.size:,} bytes>"


class _Stream(io.RawIOBase):
    def __init__(self, file: File):
        self._file, self._at = file, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = (0, self._at, self._file.size)[whence]
        if start + offset < 0:
            raise ValueError(f"offset {start + offset} lies before the file")
        self._at = start + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, into: Any) -> int:
        n = self._file.readinto(into, self._at)
        self._at += n
        return n
