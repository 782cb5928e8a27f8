"""The tree of a model for fsspec: tensorfs://MODEL!/PATH, as tensorfs://hf:ORG/NAME!/gguf/model.gguf. ("::" is what fsspec chains addresses by.)"""

from __future__ import annotations

from typing import Any, Optional

from fsspec.spec import AbstractBufferedFile, AbstractFileSystem

from ._lib import Closed, Invalid
from ._model import Model


class TensorFS(AbstractFileSystem):
    """Models are opened when a path first names them, and kept."""

    protocol = "tensorfs"
    root_marker = ""

    def __init__(self, offline: bool = False, **options: Any):
        super().__init__(**options)
        self.offline = offline
        self._models: dict[str, Model] = {}

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(p) for p in path]
        path = path.removeprefix("tensorfs://")
        model, _, inside = path.partition("!/")
        return f"{model.rstrip('/')}!/{inside.strip('/')}"

    @classmethod
    def _parent(cls, path: str) -> str:
        model, _, inside = cls._strip_protocol(path).partition("!/")
        return f"{model}!/{inside.rpartition('/')[0]}"

    def _at(self, path: str) -> tuple[Model, str, str]:
        model, _, inside = self._strip_protocol(path).partition("!/")
        if model not in self._models:
            self._models[model] = Model(model, offline=self.offline)
        return self._models[model], model, inside

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        model, name, inside = self._at(path)
        full = f"{name}!/{inside}"
        directory, _, last = inside.rpartition("/")
        if inside == "" or self._listed(model, directory, full, last + "/"):
            return dict(name=full, size=0, type="directory")
        try:
            return dict(name=full, size=model.files[inside].size, type="file")
        except KeyError as e:
            raise FileNotFoundError(e.args[0]) from None

    def _listed(self, model: Model, directory: str, full: str, name: str) -> bool:
        try:
            return name in model.files.list(directory)
        except Closed:
            raise
        except Invalid as e:  # the parent is a file
            raise NotADirectoryError(full) from e

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        found = self.info(path)
        if found["type"] == "file":
            return [found] if detail else [found["name"]]
        model, name, inside = self._at(path)
        prefix = f"{name}!/{inside + '/' if inside else ''}"
        names = model.files.list(inside)
        if not detail:
            return [prefix + n.rstrip("/") for n in names]
        base = inside + "/" if inside else ""
        return [
            dict(name=prefix + n.rstrip("/"), size=0 if n.endswith("/") else model.files[base + n].size, type="directory" if n.endswith("/") else "file")
            for n in names
        ]

    def _open(self, path: str, mode: str = "rb", block_size: Optional[int] = None, **options: Any) -> AbstractBufferedFile:
        if mode != "rb":
            raise OSError(f"{path} can only be read")
        if self.info(path)["type"] != "file":
            raise IsADirectoryError(path)
        return _Buffered(self, self._strip_protocol(path), mode, block_size or 4 << 20, **options)

    def cat_file(self, path: str, start: Optional[int] = None, end: Optional[int] = None, **_: Any) -> bytes:
        found = self.info(path)
        if found["type"] != "file":
            raise IsADirectoryError(found["name"])
        model, _, inside = self._at(path)
        first, last, _ = slice(start, end).indices(found["size"])
        return model.files[inside].read(first, max(last - first, 0))

    def _read_only(self, path: str, *_: Any, **__: Any) -> None:
        raise OSError(f"{path}: models are only read")

    mkdir = makedirs = rm = rm_file = rmdir = cp_file = mv = touch = pipe_file = put_file = _read_only  # type: ignore[assignment]


class _Buffered(AbstractBufferedFile):
    def _fetch_range(self, start: int, end: int) -> bytes:
        return self.fs.cat_file(self.path, start, end)
