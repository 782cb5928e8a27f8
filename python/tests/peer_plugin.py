"""Replaces safetensors' functions by tensorfs' before the tests of safetensors import them: pytest -p peer_plugin."""

from __future__ import annotations

from typing import Any

import safetensors
import safetensors.numpy
import safetensors.torch

import tensorfs


def load_numpy(filename: Any, *, backend: str = "mmap") -> Any:
    return tensorfs.load_file(filename, framework="np", backend=backend)


safetensors.safe_open = safetensors.numpy.safe_open = safetensors.torch.safe_open = tensorfs.safe_open
safetensors.torch.load_file, safetensors.numpy.load_file = tensorfs.load_file, load_numpy
