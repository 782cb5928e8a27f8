"""Models of the tests, and what the program says of them."""

from __future__ import annotations

import json
import os
import struct
import subprocess
from pathlib import Path

import pytest

import tensorfs

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "testdata"
MODELS = sorted([*DATA.glob("gguf/*.gguf"), *(DATA / "models-mlx").glob("*/"), *(DATA / f"architectures/{n}" for n in ("smollm3", "qwen3-next", "lfm2"))])
MODELS = [m for m in MODELS if m.name != "expected" and (m.is_file() or (m / "config.json").exists())]
# All that come with the project, where scripts/test programs asks for them.
EVERY = sorted([*(p.parent for p in DATA.rglob("config.json")), *DATA.rglob("*.gguf")]) if "TENSORFS_TEST_EVERY" in os.environ else MODELS
LLAMA = DATA / "gguf/llama-xs.q8_0.gguf"


def program(*arguments: object) -> str:
    return subprocess.run([os.environ["TENSORFS_PROGRAM"], *map(str, arguments)], check=True, capture_output=True, text=True).stdout


@pytest.fixture(params=MODELS, ids=lambda m: m.name)
def model(request: pytest.FixtureRequest) -> Path:
    return request.param


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory):
    """A model as the program exports it, by its path."""
    known: dict[Path, Path] = {}

    def export(model: Path) -> Path:
        if model not in known:
            known[model] = tmp_path_factory.mktemp("export") / "tree"
            program("export", model, known[model], "*")
        return known[model]

    return export


@pytest.fixture
def llama() -> tensorfs.Model:
    return tensorfs.open(LLAMA)


def write_safetensors(path: Path, tensors: dict[str, tuple[str, list[int], int]], data: bytes = b"") -> None:
    """A file of tensors (dtype, shape, bytes) whose numbers are data, and zeros without a place on the disk after."""
    header, at = {}, 0
    for name, (dtype, shape, size) in tensors.items():
        header[name] = dict(dtype=dtype, shape=shape, data_offsets=[at, at + size])
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)
        f.truncate(8 + len(text) + at)
