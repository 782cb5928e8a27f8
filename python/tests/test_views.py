"""Every view of every model is what the program exports."""

import json
import subprocess

import numpy
import pytest
from conftest import DATA, EVERY

import tensorfs
from tensorfs import _model


@pytest.mark.parametrize("model", EVERY, ids=lambda m: str(m.relative_to(DATA)))
def test_every_tensor(model, exported):
    try:
        m = tensorfs.open(model)
    except tensorfs.Error:  # it is there to be refused
        with pytest.raises(subprocess.CalledProcessError):
            exported(model)
        return
    tree = exported(model)
    index = json.loads((tree / "index.json").read_text())["views"]
    assert set(m.views) == set(index)
    for view in m.views:
        entries = index[view]
        assert list(m[view]) == sorted(entries)
        for name, entry in entries.items():
            t = m[view][name]
            want = (tree / view / name).read_bytes()
            assert bytes(t.memoryview()) == want, f"{view}/{name}"
            assert bytes(t.read()) == want
            assert (t.dtype, list(t.shape), t.nbytes) == (entry["dtype"], entry["shape"], len(want))
            assert t.source_name == entry.get("source_name")


def test_files(model, exported):
    tree, m = exported(model), tensorfs.open(model)
    paths = list(m.files)
    assert "config.json" in paths and len(paths) == len(m.files)
    for path in paths:
        if not path.startswith("source/") and path not in ("README", "index.json"):  # they name the place of the model
            assert m.files[path].read() == (tree / path).read_bytes(), path
    assert m.config == json.loads((tree / "config.json").read_text())
    assert m.metadata == json.loads((tree / "metadata.json").read_text())
    with m.files["config.json"].open() as f:
        text = (tree / "config.json").read_bytes()
        assert f.seek(-5, 2) == len(text) - 5 and f.read() == text[-5:] and f.seek(3) == 3 and f.read(4) == text[3:7]
    with pytest.raises(KeyError, match="nothing"):
        m.files["hf/nothing"]
    assert "hf/nothing" not in m.files


def test_numbers(llama):
    t = llama.f16["layers.0.attention.q.weight"]
    a = t.numpy()
    assert a.dtype == numpy.float16 and a.shape == t.shape and not a.flags.writeable
    assert a.tobytes() == bytes(t.memoryview())
    assert numpy.asarray(t).tobytes() == a.tobytes()
    assert (llama.f32["layers.0.attention.q.weight"].numpy().astype(numpy.float16) == a).all()
    with pytest.raises(ValueError):
        a[0, 0] = 1
    raw = llama.raw["layers.0.attention.q.weight"]
    assert raw.dtype == "Q8_0" and raw.numpy().dtype == numpy.uint8 and raw.numpy().shape == (raw.nbytes,) and not raw.plain
    rows = llama.f16["token_embedding.weight"]
    assert bytes(rows.read(3, 5)) == rows.numpy()[3:5].tobytes()
    into = numpy.empty((2, rows.shape[1]), numpy.float16)
    rows.read(3, 5, into=into)
    assert (into == rows.numpy()[3:5]).all()
    with pytest.raises(tensorfs.Invalid):
        rows.read(5, 3)
    with pytest.raises(tensorfs.Invalid):
        rows.read(0, rows.shape[0] + 1)


def test_dlpack(llama):
    t = llama.f16["layers.0.attention.q.weight"]
    assert (numpy.from_dlpack(t) == t.numpy()).all()


def test_bfloat16(llama, monkeypatch):
    t = llama.bf16["layers.0.attention.q.weight"]
    ml_dtypes = pytest.importorskip("ml_dtypes")
    assert t.numpy().dtype == ml_dtypes.bfloat16
    monkeypatch.setitem(__import__("sys").modules, "ml_dtypes", None)
    with pytest.raises(TypeError, match="ml_dtypes.*torch.*f32"):
        t.numpy()


def test_torch(llama):
    torch = pytest.importorskip("torch", reason="torch is tested by scripts/test programs")
    for view, kind in (("f16", torch.float16), ("bf16", torch.bfloat16), ("f32", torch.float32)):
        t = llama[view]["layers.0.attention.q.weight"]
        assert t.torch().dtype == kind and t.torch().shape == t.shape
        assert t.torch().view(torch.uint8).numpy().tobytes() == bytes(t.memoryview())
        copy = t.torch(copy=True)
        copy.zero_()
        assert (t.torch() != 0).any()
    assert torch.equal(torch.from_dlpack(llama.bf16["layers.0.attention.q.weight"]), llama.bf16["layers.0.attention.q.weight"].torch())
    assert llama.raw["layers.0.attention.q.weight"].torch().dtype == torch.uint8


def test_load(llama):
    seen = []
    loaded = llama.load("f16", progress=lambda done, total: seen.append((done, total)))
    assert set(loaded) == set(llama.f16) and seen[-1][0] == seen[-1][1] > 0
    for name, t in loaded.items():
        assert bytes(t.memoryview()) == bytes(llama.f16[name].memoryview())

    def stop(done, total):
        raise ZeroDivisionError("enough")

    with pytest.raises(ZeroDivisionError, match="enough"):
        llama.load("f32", progress=stop)
    with pytest.raises(KeyError):
        llama.load("f32", names=["nothing"])


def test_names(llama):
    assert llama.f16["blk.0.attn_q.weight"].name == "layers.0.attention.q.weight"
    assert "blk.0.attn_q.weight" in llama.f16 and "nothing" not in llama.f16 and len(llama.f16) == len(list(llama.f16.items()))
    assert llama.fused_f16["layers.0.attention.qkv.weight"].view == "fused-f16"
    with pytest.raises(KeyError, match="layers.0.attention.q.weight"):
        llama.f16["layers.0.attention.qq.weight"]
    with pytest.raises(KeyError, match="no such view"):
        llama["f99"]
    with pytest.raises(AttributeError):
        llama.f99
    assert llama.absent("f16", "layers.0.attention.q.weight") is None
    assert "not in the model" in llama.absent("f16", "nothing")


def test_notebooks(llama):
    assert "blk.0.attn_q.weight" in llama._repr_html_()
    assert "<svg" in llama.f16["layers.0.attention.q.weight"]._repr_html_()


def test_program(llama):
    (t,) = tensorfs.stat(llama, "layers.0.attention.q.weight")
    assert t["name"] == "layers.0.attention.q.weight"
    assert tensorfs.diff(llama, llama.path)
    with pytest.raises(tensorfs.Error, match="nothing.gguf"):
        tensorfs.stat("nothing.gguf")
