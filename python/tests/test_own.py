"""Writing to a torch tensor changes only that tensor: no fault, and no change in the file or in another tensor."""

import ctypes
import hashlib
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy
import pytest
from conftest import LLAMA, write_safetensors

import tensorfs

NAME = "layers.0.attention.q.weight"
HF = "model.layers.0.self_attn.q_proj.weight"


@pytest.fixture
def file(tmp_path) -> Path:
    path = tmp_path / "x.safetensors"
    tensors = {"a": ("F32", [64, 64], 64 * 64 * 4), "b": ("BF16", [8], 16), "c": ("F8_E4M3", [8], 8), "d": ("I64", [3], 24), "e": ("F32", [0], 0)}
    write_safetensors(path, tensors, numpy.arange(64 * 64, dtype="f4").tobytes() + bytes(range(48)))
    return path


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def flip(t) -> None:
    """Changes each bit of a tensor of torch, or of an array, in place."""
    if isinstance(t, numpy.ndarray):
        b = t.reshape(-1).view(numpy.uint8)
        b ^= 255
    elif t.numel():
        import torch

        t.reshape(-1).view(torch.uint8).bitwise_xor_(255)


def raw(t) -> bytes:
    if isinstance(t, numpy.ndarray):
        return t.tobytes()
    import torch

    return t.reshape(-1).view(torch.uint8).numpy().tobytes() if t.numel() else b""


def ways(framework: str):
    """How to get a tensor that may be written to, by its name in a file."""
    yield "safe_open", lambda path, name: tensorfs.safe_open(path, framework).get_tensor(name)
    yield "get_tensors", lambda path, name: tensorfs.safe_open(path, framework).get_tensors()[name]
    yield "pread", lambda path, name: tensorfs.safe_open(path, framework, backend="pread").get_tensor(name)
    yield "slice", lambda path, name: tensorfs.safe_open(path, framework).get_slice(name)[...]
    yield "rows", lambda path, name: tensorfs.safe_open(path, framework).get_slice(name)[:]
    yield "load_file", lambda path, name: tensorfs.load_file(path, framework=framework)[name]
    yield "weights", lambda path, name: dict(tensorfs.weights(path, framework=framework))[name]
    yield "copy", lambda path, name: tensorfs.load_file(path, framework=framework, copy=True)[name]
    if framework == "pt":
        import torch

        yield "torch()", lambda path, name: tensorfs.open(path).raw[name].torch()
        yield "from_dlpack", lambda path, name: torch.from_dlpack(tensorfs.open(path).raw[name])


@pytest.mark.parametrize("framework", ["np", "pt"])
def test_writes_stay(file, framework):
    if framework == "pt":
        pytest.importorskip("torch", reason="torch is tested by scripts/test programs")
    else:
        pytest.importorskip("ml_dtypes")
    before, m = digest(file), tensorfs.open(file)
    seen = {name: m.raw[name].memoryview() for name in "abcde"}
    want = {name: bytes(v) for name, v in seen.items()}
    for how, get in ways(framework):
        for name in "abcde":
            one, two = get(file, name), get(file, name)
            flip(one)
            assert raw(one) == bytes(255 ^ b for b in want[name]), (how, name)
            assert raw(two) == want[name] == bytes(seen[name]) == bytes(m.raw[name].read()) and raw(get(file, name)) == want[name], (how, name)
    assert digest(file) == before


@pytest.mark.parametrize("view", ["raw", "f16", "bf16", "f32", "hf"])
def test_tensors_of_a_model(view):
    """The same for converted tensors, one at a time and in a set."""
    torch = pytest.importorskip("torch", reason="torch is tested by scripts/test programs")
    before, m = digest(LLAMA), tensorfs.open(LLAMA)
    for name in [HF, "model.norm.weight"] if view == "hf" else [NAME, "output_norm.weight"]:
        t, want = m[view][name], bytes(m[view][name].read())
        loaded = m.load(view, [name])[name]
        for one in (t.torch(), torch.from_dlpack(t), loaded.torch(), torch.from_dlpack(loaded), m[view][name].torch()):
            assert raw(one) == want
            flip(one)
            assert raw(one) != want
        for x in (t, loaded, m[view][name], m.load(view, [name])[name]):
            assert raw(x.torch()) == raw(x.torch(copy=True)) == x.numpy().tobytes() == bytes(x.memoryview()) == bytes(x.read()) == want
    assert digest(LLAMA) == before


def test_two_names_of_the_same_bytes(tmp_path):
    """Tensors on the same pages, and the same tensor twice, are not each other's."""
    torch = pytest.importorskip("torch", reason="torch is tested by scripts/test programs")
    write_safetensors(tmp_path / "x.safetensors", {f"t{i:03}": ("F32", [3], 12) for i in range(100)}, bytes(range(240)) * 5)
    loaded = tensorfs.load_file(tmp_path / "x.safetensors")
    want = {name: t.clone() for name, t in loaded.items()}
    for i, t in enumerate(loaded.values()):
        if i % 2:
            t.zero_()
    assert all(torch.equal(t, torch.zeros(3) if i % 2 else want[name]) for i, (name, t) in enumerate(loaded.items()))


def test_the_cache_is_not_written(tmp_path):
    torch = pytest.importorskip("torch", reason="torch is tested by scripts/test programs")
    m = tensorfs.open(LLAMA, cache=tmp_path)
    t = m.load("f16", cache="read-write")[NAME]
    want, files = bytes(t.read()), [p for p in tmp_path.rglob("*") if p.is_file()]
    before = [digest(p) for p in files]
    assert t.origin == "cache" and files
    for one in (t.torch(), torch.from_dlpack(t), m.f16[NAME].torch()):
        flip(one)
        assert raw(one) != want
    assert [digest(p) for p in files] == before and bytes(t.memoryview()) == want == bytes(tensorfs.open(LLAMA, cache=tmp_path).f16[NAME].memoryview())


def test_numpy_reads_only(file, llama):
    """numpy() and from_dlpack are read-only, and nothing that a consumer of an older DLPack writes is seen."""
    for t in (llama.f16[NAME], llama.raw["output_norm.weight"], tensorfs.open(file).raw["a"], tensorfs.open(file).raw["d"], llama.load("f32", [NAME])[NAME]):
        want = bytes(t.read())
        for a in (t.numpy(), numpy.from_dlpack(t), numpy.asarray(t)):
            assert not a.flags.writeable and a.tobytes() == want
            with pytest.raises(ValueError):
                a[...] = 0
        old = numpy.from_dlpack(Old(t))
        ctypes.memset(old.ctypes.data, 0, old.nbytes)
        assert bytes(t.memoryview()) == want == numpy.from_dlpack(t).tobytes()


class Old:
    """What asks for version 0 of DLPack, which cannot say that memory is read-only."""

    def __init__(self, t: tensorfs.Tensor):
        self.t = t

    def __dlpack__(self, **_: object):
        return self.t.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.t.__dlpack_device__()


def test_dlpack_without_torch(file, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(BufferError, match="install torch"):
        tensorfs.open(file).raw["b"].__dlpack__()


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_pages_are_shared_until_written(tmp_path):
    """Of a mapped tensor only the pages that are written to are this process's."""
    pytest.importorskip("torch", reason="torch is tested by scripts/test programs")
    size = 64 << 20
    write_safetensors(tmp_path / "large.safetensors", {"x": ("F32", [size // 4096, 1024], size)})
    code = """
        import sys, tensorfs, torch
        x = {get}
        def memory():
            smaps = open("/proc/self/smaps").read().split("large.safetensors", 1)[1]
            return {{l.split(":")[0]: int(l.split()[1]) << 10 for l in smaps.splitlines()[1:20] if l.endswith("kB")}}
        x.sum(); before = memory(); x[:16] += 1; after = memory()
        print(before["Rss"] > {size} // 2, before["Anonymous"], 0 < after["Anonymous"] < 1 << 20, x[0, 0].item(), x[16, 0].item())
    """
    for get in (
        "tensorfs.load_file(sys.argv[1])['x']", "dict(tensorfs.weights(sys.argv[1]))['x']", "torch.from_dlpack(tensorfs.open(sys.argv[1]).raw['x'])",
        "tensorfs.load_file(sys.argv[1], framework='np')['x']",
    ):  # fmt: skip
        code_ = textwrap.dedent(code).format(get=get, size=size)
        done = subprocess.run([sys.executable, "-c", code_, str(tmp_path / "large.safetensors")], capture_output=True, text=True, timeout=300)
        assert (done.returncode, done.stdout) == (0, "True 0 True 1.0 0.0\n"), (get, done)
