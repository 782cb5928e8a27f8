"""safe_open and load_file compared with the package safetensors, over an exported model's hf/."""

import importlib.util

import numpy
import pytest

import tensorfs
from tensorfs import _model

safetensors = pytest.importorskip("safetensors")

SLICES = [
    slice(None), slice(2, 5), slice(0, 0), slice(3, None), slice(None, 4), 0, 3, (slice(1, 3), slice(2, 7)), (slice(None), 3), (2, slice(1, 4)), (1, 2),
    ..., (slice(1, 3), ...),
]  # fmt: skip


FRAMEWORKS = ["np", "pt"] if importlib.util.find_spec("torch") else ["np"]


def same(a, b) -> bool:
    if isinstance(a, numpy.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    import torch

    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(bits(a), bits(b))


def bits(t):
    """NaN is equal to itself."""
    import torch

    return torch.cat([t.reshape(-1), t.new_zeros(8)]).view(torch.uint8)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_safe_open(model, exported, framework):
    if framework == "np":
        pytest.importorskip("ml_dtypes")
    real = exported(model) / "hf/model.safetensors"
    if not real.exists():
        with pytest.raises(tensorfs.Unsupported, match="there is no hf/"):
            tensorfs.safe_open(model, framework)
        return
    with safetensors.safe_open(real, framework) as want, tensorfs.safe_open(model, framework) as got:
        assert got.keys() == sorted(want.keys()) and got.metadata() == want.metadata() and got.offset_keys() == list(want.offset_keys())
        for name in got.keys():
            try:
                expected = want.get_tensor(name)
            except (TypeError, AttributeError, RuntimeError):  # NumPy of the real one has no such type
                continue
            assert same(got.get_tensor(name), expected), name
            a, b = got.get_slice(name), want.get_slice(name)
            assert a.get_shape() == b.get_shape() and a.get_dtype() == b.get_dtype()
            for index in SLICES:
                try:
                    cut = b[index]
                except Exception:  # noqa: BLE001  the tensor is too small, or the real one takes less
                    continue
                assert same(numpy.asarray(a[index]) if framework == "np" else a[index], cut), (name, index)
        with pytest.raises(KeyError):
            got.get_tensor("nothing")


def test_rows_alone(llama):
    """A slice of what is converted converts its rows."""
    with tensorfs.safe_open(llama, "np") as f:
        s = f.get_slice("model.layers.0.self_attn.q_proj.weight")
        whole = f.get_tensor("model.layers.0.self_attn.q_proj.weight")
        for index in (slice(-5, None), -1, slice(None, None, 2), slice(None, None, -1), (slice(3, 9), slice(None, None, -3))):
            assert same(numpy.asarray(s[index]), numpy.asarray(whole[index]).copy()), index
        with pytest.raises(IndexError):
            s[10_000]


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_load_file(llama, framework):
    seen = []
    loaded = tensorfs.load_file(llama, framework=framework, progress=lambda done, total: seen.append((done, total)))
    assert set(loaded) == set(llama.hf) and seen[-1][0] == seen[-1][1]
    copied = tensorfs.load_file(llama, framework=framework, copy=True)
    for name in loaded:
        assert same(loaded[name], copied[name])
        copied[name][...] = 0  # may be written to


def test_file_alone(tmp_path):
    """A safetensors file without a config.json is read under its own names."""
    from conftest import write_safetensors

    write_safetensors(tmp_path / "x.safetensors", {"a.b": ("F32", [2, 3], 24), "c": ("I64", [], 8)}, bytes(range(32)))
    with safetensors.safe_open(tmp_path / "x.safetensors", "np") as want, tensorfs.safe_open(tmp_path / "x.safetensors", "np") as got:
        assert got.keys() == sorted(want.keys()) and got.offset_keys() == list(want.offset_keys())
        for name in got.keys():
            assert same(numpy.asarray(got.get_tensor(name)), numpy.asarray(want.get_tensor(name)))


def test_names_of_files(tmp_path):
    """A tensor is found by its name in the file, even if reading only its rows is not enough."""
    from conftest import write_safetensors

    name = "model.layers.0.self_attn.q_proj.weight"
    write_safetensors(tmp_path / "x.safetensors", {name: ("F32", [3, 2], 24)}, numpy.arange(6, dtype="f4").tobytes())
    with tensorfs.safe_open(tmp_path / "x.safetensors", "np") as f:
        assert f.keys() == [name] and f.get_slice(name)[::-1].tolist() == [[4, 5], [2, 3], [0, 1]] and f.get_slice(name)[...].shape == (3, 2)


def test_errors(llama, tmp_path):
    """Errors have the same kinds as in the package: a missing file, a truncated file, an unknown name, an unknown framework."""
    (tmp_path / "cut.safetensors").write_bytes(b"\xff" * 100)
    for open_, wrong in ((tensorfs.safe_open, tensorfs.Malformed), (safetensors.safe_open, safetensors.SafetensorError)):
        with pytest.raises(FileNotFoundError):
            open_(tmp_path / "nothing.safetensors", framework="np")
        with pytest.raises(wrong):
            open_(tmp_path / "cut.safetensors", framework="np")
    with pytest.raises(ValueError, match="pt and np"):
        tensorfs.safe_open(llama, framework="tf")
    with tensorfs.safe_open(llama, "np") as f:
        for get in (f.get_tensor, f.get_slice):
            with pytest.raises(KeyError, match="nothing"):
                get("nothing")


def test_few_in_memory(llama, monkeypatch):
    """weights converts no more than a few tensors ahead of the one that is taken."""
    reads, read = [], _model.Tensor.read
    monkeypatch.setattr(_model.Tensor, "read", lambda t, *a, **how: (reads.append(t.name), read(t, *a, **how))[1])
    want = tensorfs.load_file(llama, framework="np", copy=True)
    assert len(want) > 12
    reads.clear()
    got = {}
    for i, (name, numbers) in enumerate(tensorfs.weights(llama, framework="np", copy=True)):
        got[name] = numbers
        assert len(reads) <= i + 6
    assert list(got) == list(want) and all(same(got[name], want[name]) for name in want)


def test_state_dict(llama):
    torch = pytest.importorskip("torch", reason="torch is tested by scripts/test programs")
    pytest.importorskip("transformers")
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.for_model(**{k: v for k, v in __import__("json").loads(llama.files["hf/config.json"].read()).items()})
    model = AutoModelForCausalLM.from_config(config).float()
    missing = model.load_state_dict(tensorfs.load_file(llama), strict=False)
    assert not missing.unexpected_keys and set(missing.missing_keys) <= {"lm_head.weight"}
    want = tensorfs.load_file(llama)["model.layers.1.mlp.up_proj.weight"].float()
    assert torch.equal(model.state_dict()["model.layers.1.mlp.up_proj.weight"], want)
