"""Paths and names that are not UTF-8, and NUL bytes in them."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import DATA, LLAMA, ROOT, write_safetensors

import tensorfs

NAME = "layers.0.attention.q.weight"
linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has paths of any bytes")


@pytest.fixture
def odd(tmp_path) -> str:
    """A directory whose name is no UTF-8, with models in it."""
    directory = os.fsencode(tmp_path) + b"/-\xe9\xff ' \n\xe2\x82"
    os.mkdir(directory)
    shutil.copy(LLAMA, directory + b"/\xe9.gguf")
    write_safetensors(Path(os.fsdecode(directory + b"/\xfe.safetensors")), {"a.b": ("F32", [2, 3], 24)}, bytes(range(24)))
    return os.fsdecode(directory)


@linux
def test_paths_of_any_bytes(odd, tmp_path):
    gguf, file = f"{odd}/\udce9.gguf", f"{odd}/\udcfe.safetensors"
    for name in (gguf, os.fsencode(gguf), Path(gguf)):
        m = tensorfs.open(name)
        assert m.path == gguf and m.f16[NAME].numpy().any() and repr(m)
        assert m.files["hf/config.json"].read()
    m = tensorfs.open(gguf)
    assert [m.files["source/" + name].size for name in m.files.list("source")] == [LLAMA.stat().st_size]
    assert os.fsencode(m.files.list("source")[0]) == b"\xe9.gguf"
    import pickle

    assert pickle.loads(pickle.dumps(m)).path == gguf
    for name in (file, os.fsencode(file), Path(file)):
        with tensorfs.safe_open(name, "np") as f:
            assert f.keys() == ["a.b"] and f.get_tensor("a.b").tobytes() == bytes(range(24)) and f.metadata() is None
        assert list(tensorfs.load_file(name, framework="np")) == [n for n, _ in tensorfs.weights(name, framework="np")] == ["a.b"]
    assert tensorfs.stat(gguf, NAME)[0]["name"] == tensorfs.stat(os.fsencode(gguf), NAME)[0]["name"] == NAME
    assert tensorfs.diff(gguf, m)
    with pytest.raises(FileNotFoundError):
        tensorfs.open(f"{odd}/nothing\udcff.gguf")
    with pytest.raises(tensorfs.Error, match="nothing"):
        tensorfs.stat(f"{odd}/nothing\udcff.gguf")
    shutil.copytree(DATA / "lora/plain-bf16-f32", f"{odd}/lora")
    base, adapter = f"{odd}/lora/base", f"{odd}/lora/adapter0"
    plain, changed = tensorfs.open(base), tensorfs.open(base, lora=[adapter])
    assert any(bytes(changed.f32[n].read()) != bytes(plain.f32[n].read()) for n in plain.f32)
    assert tensorfs.stat(changed)
    assert tensorfs.open(gguf, cache=f"{odd}/cache").load("f16", [NAME], cache="read-write")[NAME].origin == "cache"


@linux
def test_fsspec_of_any_bytes(odd):
    fsspec = pytest.importorskip("fsspec")
    from tensorfs.fsspec import TensorFS

    fs = TensorFS(skip_instance_cache=True)
    top = f"tensorfs://{odd}/\udce9.gguf"
    assert fs.cat_file(top + "!/gguf/model.gguf", 0, 4) == b"GGUF" and fs.isdir(top + "!/hf")
    (source,) = fs.ls(top + "!/source", detail=False)
    assert fs.size(source) == LLAMA.stat().st_size
    fsspec.register_implementation("tensorfs", "tensorfs.fsspec.TensorFS", clobber=True)
    with fsspec.open("tensorfs://" + source) as f:
        assert f.read(4) == b"GGUF"


@linux
def test_directory_for_vllm(odd, tmp_path, monkeypatch):
    from tensorfs import vllm

    vllm.files(f"{odd}/\udce9.gguf", tmp_path / "d")
    assert vllm.source(str(tmp_path / "d"), {}) == f"{odd}/\udce9.gguf"
    vllm.files(f"{odd}/\udce9.gguf", f"{odd}/d")
    assert json.loads(Path(f"{odd}/d/config.json").read_text())


def test_path_like_an_option(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(LLAMA, "--version")
    assert tensorfs.stat("--version", NAME)[0]["name"] == NAME and tensorfs.open("--version").format == "gguf"


@pytest.mark.parametrize("bad", ["{}\0", "{}\0.safetensors", "\0{}", "{}/\0/x", "\0"])
def test_nul(bad, tmp_path):
    from tensorfs import vllm

    name, m = bad.format(LLAMA), tensorfs.open(LLAMA)
    uses = [
        lambda: tensorfs.open(name), lambda: tensorfs.open(os.fsencode(name)), lambda: tensorfs.open(Path(name)), lambda: tensorfs.safe_open(name, "np"),
        lambda: tensorfs.load_file(name, framework="np"), lambda: list(tensorfs.weights(name, framework="np")), lambda: tensorfs.open(LLAMA, cache=name),
        lambda: tensorfs.open(LLAMA, lora=[name]), lambda: tensorfs.open(LLAMA, views=["f16", name]), lambda: tensorfs.open(LLAMA, i2s=name),
        lambda: tensorfs.stat(name), lambda: tensorfs.stat(m, name), lambda: tensorfs.diff(m, name), lambda: vllm.files(name, tmp_path), lambda: m.f16[name],
        lambda: name in m.f16, lambda: m.absent("f16", name), lambda: m.absent(name, NAME), lambda: m.load("f16", [name]), lambda: m.files.list(name),
        lambda: tensorfs.open(LLAMA)._loader.call("info", *__import__("tensorfs")._model._named("raw", name)),
    ]  # fmt: skip
    for i, use in enumerate(uses):
        with pytest.raises(tensorfs.Invalid, match="NUL"):
            raise AssertionError(f"{i}: {use()!r}")
    with pytest.raises(KeyError, match="NUL"):
        m.files[name]
    with pytest.raises(KeyError):
        m[name]
    assert name not in m.files
    if __import__("importlib.util").util.find_spec("fsspec"):
        from tensorfs.fsspec import TensorFS

        for address in (f"tensorfs://{name}!/config.json", f"tensorfs://{LLAMA}!/{name}"):
            with pytest.raises(OSError):
                TensorFS(skip_instance_cache=True).info(address)


def test_surrogates():
    """Text that is no name of anything."""
    m = tensorfs.open(LLAMA)
    for use in (lambda: tensorfs.open("\ud800"), lambda: m.f16["\ud800"], lambda: tensorfs.stat("\ud800")):
        with pytest.raises(tensorfs.Invalid, match="surrogate"):
            use()
    with pytest.raises(KeyError):
        m.f16["\udce9"]
    assert "\udce9" not in m.f16


def test_file_without_ending(tmp_path):
    """A safetensors file of any name has metadata and an order."""
    safetensors = pytest.importorskip("safetensors.numpy")
    import numpy

    for name in ("0123456789abcdef", "x.bin", "y.safetensors"):
        path = tmp_path / name
        safetensors.save_file({"b": numpy.zeros(3, "f8"), "a": numpy.zeros(3, "f4")}, path, metadata={"k": "v"})
        with tensorfs.safe_open(path, "np") as f:
            assert f.metadata() == {"k": "v"} and f.offset_keys() == ["b", "a"] and list(f.get_tensors()) == ["b", "a"]


def test_reason(tmp_path):
    """Why a tensor is absent is said once."""
    write_safetensors(tmp_path / "x.safetensors", {"u": ("U64", [3], 24)}, bytes(24))
    m = tensorfs.open(tmp_path / "x.safetensors")
    assert m.absent("f32", "u") == '"u" is not in view "f32": U64 holds integers, which are not converted; see raw/'
    assert m.absent("f32", "nothing") == '"nothing" is not in view "f32": not in the model'
    assert m.absent("f33", "u").startswith('"f33": no such view; there are ') and m.absent("f33", "u").endswith("raw")


@pytest.mark.parametrize("where", ["bin", "../../../bin"])
def test_program_of_the_package(tmp_path, where):
    """The command that was installed with the package is found: by pip --target beside it, else where its record says."""
    packages = tmp_path / "lib/python3/site-packages"
    shutil.copytree(ROOT / "python/tensorfs", packages / "tensorfs", ignore=shutil.ignore_patterns("__pycache__"))
    command = packages / where / "tensorfs"
    command.parent.mkdir(parents=True)
    command.write_text('#!/bin/sh\necho "this one $1"\n')
    command.chmod(0o755)
    info = packages / "tensorfs_models-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tensorfs-models\nVersion: 0.1.0\n")
    (info / "RECORD").write_text("../../bin/tensorfs,,\n" if where == "bin" else f"{where}/tensorfs,,\n")
    env = {k: v for k, v in os.environ.items() if not k.startswith(("TENSORFS", "PYTHONPATH", "LD_PRELOAD"))} | {"PATH": "/usr/bin:/bin"}
    env["PYTHONPATH"] = str(packages)
    done = subprocess.run([sys.executable, "-m", "tensorfs", "x"], capture_output=True, text=True, env=env)
    assert done.stdout == "this one x\n", done
