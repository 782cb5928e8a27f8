"""Every type of safetensors, as NumPy, torch and the package safetensors have it."""

import importlib.util
import math
import re
import struct
import sys

import numpy
import pytest
from conftest import ROOT, write_safetensors
from test_safetensors import FRAMEWORKS, bits

import tensorfs
from tensorfs._index import checked
from tensorfs._model import NUMBERS

safetensors = pytest.importorskip("safetensors")
ml_dtypes = pytest.importorskip("ml_dtypes")

BITS = {name: known.bits for name, known in NUMBERS.items()} | {"F6_E2M3": 6, "F6_E3M2": 6}
PACKED = [name for name in BITS if name not in NUMBERS]  # whose numbers no array has
SHAPES = {"matrix": [4, 8], "vector": [8], "cube": [2, 3, 4], "empty": [0, 4]}
INDICES = [
    slice(None), slice(1, 3), slice(0, 0), slice(3, 1), slice(None, None, 2), slice(-2, None), 0, 1, -1, ..., (), (slice(None), slice(2, 6)), (1, slice(0, 4)),
    (..., slice(0, 2)), (slice(0, 2), slice(4, 8)), (0, 1, slice(2, 4)), (slice(None), slice(None), slice(0, 2)), (slice(None), slice(1, 3)), (slice(None), 1), (..., 1),
]  # fmt: skip


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    tensors, data = {}, b""
    random = numpy.random.default_rng(1)
    for name, width in BITS.items():
        for kind, shape in SHAPES.items():
            size = math.prod(shape) * width // 8
            tensors[f"{name}.{kind}"] = (name, shape, size)
            data += random.integers(0, 2 if name == "BOOL" else 256, size, numpy.uint8).tobytes()
    file = tmp_path_factory.mktemp("types") / "types.safetensors"
    write_safetensors(file, tensors, data)
    return file


def past_the_end(index, shape):
    """Whether safetensors refuses an index that NumPy clips."""
    try:
        return checked(index, shape) is None
    except IndexError:
        return True


def outcome(get):
    """Type, shape and bytes of what is got; None for an error."""
    try:
        got = get()
    except Exception:  # noqa: BLE001
        return None
    if isinstance(got, (numpy.ndarray, numpy.generic)):
        return str(got.dtype), got.shape, got.tobytes()
    return str(got.dtype), tuple(got.shape), bits(got.contiguous()).numpy().tobytes() if got.numel() else b""


def test_table():
    """Each type of the format is here, but for numbers of 6 bits."""
    rows = re.findall(r'name: "(\w+)".*bits: (\d+),.*safetensors: true', (ROOT / "dtype.go").read_text())
    assert {name: int(n) for name, n in rows} == BITS


@pytest.mark.parametrize("backend", ["mmap", "pread"])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_beside_safetensors(path, framework, backend):
    """What the real one returns, ours returns too: every type, whole and in slices."""
    compared = set()
    with safetensors.safe_open(path, framework, backend=backend) as real, tensorfs.safe_open(path, framework, backend=backend) as ours:
        assert ours.keys() == sorted(real.keys())
        all_of_ours = ours.get_tensors()
        assert list(all_of_ours) == list(real.offset_keys())
        for name in real.keys():
            want = outcome(lambda: real.get_tensor(name))
            if want is not None:
                assert outcome(lambda: ours.get_tensor(name)) == want == outcome(lambda: all_of_ours[name]), name
                compared.add(name.partition(".")[0])
            a, b = ours.get_slice(name), real.get_slice(name)
            assert (a.get_shape(), a.get_dtype()) == (b.get_shape(), b.get_dtype())
            if name == "F4.empty" and backend == "mmap":
                continue  # whose slices have the header's shape there, unlike the tensor
            for index in INDICES:
                want = outcome(lambda: b[index])
                if want is not None:
                    assert outcome(lambda: a[index]) == want, (name, index)
    lacking = {"F4"} if backend == "pread" else set()  # which the real one refuses there
    assert len(compared) >= 12 and (framework == "np" or compared == NUMBERS.keys() - lacking)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_slices_are_of_the_tensor(path, framework):
    """A slice is the same part of the whole tensor, or is refused: never other bytes."""
    with tensorfs.safe_open(path, framework) as f:
        for name in f.keys():
            kind = name.partition(".")[0]
            whole, part = f.get_tensor(name), f.get_slice(name)
            for index in INDICES:
                got = outcome(lambda: part[index])
                if kind in PACKED:
                    assert got is None
                elif kind == "F4" and framework == "pt":
                    if index in [slice(1, 3), 1, slice(None, None, 2)] and len(whole.shape) > 1:
                        assert got == outcome(lambda: whole[index]), (name, index)
                elif framework == "np" and past_the_end(index, whole.shape):
                    assert got is None
                else:
                    assert got == outcome(lambda: whole[index]), (name, index)
            if kind in PACKED:
                with pytest.raises(tensorfs.Unsupported, match="get_tensor"):
                    part[:]
        if framework == "pt":
            s = f.get_slice("F4.matrix")
            for index in [(0, 1), (slice(None), slice(1, 3)), (slice(None), slice(0, 3)), (slice(None), slice(None, None, 2)), (..., None), [0, 1]]:
                with pytest.raises(tensorfs.Unsupported):
                    s[index]


def test_rows_that_share_bytes(tmp_path):
    """Rows of three numbers of four bits are no whole bytes."""
    write_safetensors(tmp_path / "x.safetensors", {"x": ("F4", [2, 3], 3)}, bytes([0x21, 0x43, 0x65]))
    t = tensorfs.open(tmp_path / "x.safetensors").raw["x"]
    codes = numpy.array([[1, 2, 3], [4, 5, 6]], numpy.uint8)
    assert (t.numpy().view(numpy.uint8) == codes).all() and bytes(t.read()) == bytes([0x21, 0x43, 0x65])
    with pytest.raises(tensorfs.Invalid, match="row by row"):
        t.read(1, 2, into=bytearray(1))
    with tensorfs.safe_open(tmp_path / "x.safetensors", "np") as f:
        assert f.get_slice("x")[1].view(numpy.uint8).tolist() == [4, 5, 6]
    if importlib.util.find_spec("torch"):
        with pytest.raises(TypeError, match="odd"):
            t.torch()


def test_numpy(path):
    """The types come from ml_dtypes, in the tensor's shape, and numpy.asarray gives the same."""
    m = tensorfs.open(path)
    for name in m.raw:
        t = m.raw[name]
        if t.dtype in PACKED:
            assert t.numpy().dtype == numpy.uint8 and t.numpy().shape == (t.nbytes,) and numpy.asarray(t).tobytes() == bytes(t.read())
            continue
        known = NUMBERS[t.dtype]
        a = t.numpy()
        assert a.dtype == (known.numpy if known.known else getattr(ml_dtypes, known.numpy)) and a.shape == t.shape and not a.flags.writeable
        same = [numpy.asarray(t), numpy.array(t), numpy.array(t, copy=True), t.__array__(), t.__array__(a.dtype), t.__array__(copy=True), numpy.asarray(t, a.dtype)]
        for b in same:
            assert (b.dtype, b.shape, b.tobytes()) == (a.dtype, a.shape, a.tobytes()), name
        assert numpy.array(t).flags.writeable and t.__array__(copy=True).flags.writeable
        if t.dtype not in ("C64", "BOOL"):
            with numpy.errstate(all="ignore"):
                f = numpy.asarray(t, numpy.float64)
                assert f.dtype == numpy.float64 and f.tobytes() == a.astype(numpy.float64).tobytes()
    with pytest.raises(ValueError, match="without a copy"):
        m.raw["BF16.matrix"].__array__(numpy.float32, copy=False)


@pytest.mark.parametrize("name", ["BF16.matrix", "F8_E4M3.matrix", "F8_E8M0.vector", "F4.matrix"])
def test_without_ml_dtypes(path, monkeypatch, name):
    """No array of objects, but an error that says what to do."""
    t = tensorfs.open(path).raw[name]
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    for get in (t.numpy, lambda: numpy.asarray(t), lambda: numpy.array(t), lambda: numpy.asarray(t, numpy.float32), t.__array__):
        with pytest.raises(TypeError, match="install ml_dtypes"):
            get()


def test_memoryview(path):
    """memoryview(t) of Python 3.12: numbers in their shape, or an error if memoryview has no such type."""
    m = tensorfs.open(path)
    for name in m.raw:
        t = m.raw[name]
        try:
            v = t.__buffer__(0)
        except BufferError:
            assert not NUMBERS[t.dtype].format or not t.nbytes
            continue
        assert v.readonly and v.tobytes() == bytes(t.read())
        assert (numpy.asarray(v) == t.numpy()).all() or t.dtype[0] in "FC", name
        assert numpy.asarray(v).dtype == t.numpy().dtype and v.shape == t.numpy().shape
        if sys.version_info >= (3, 12):
            assert memoryview(t).format == v.format and memoryview(t).shape == v.shape
    assert struct.calcsize("q") == 8


def test_torch(path):
    torch = pytest.importorskip("torch", reason="torch is tested by scripts/test programs")
    m = tensorfs.open(path)
    for name in m.raw:
        t = m.raw[name]
        for got in (t.torch(), t.torch(copy=True), torch.from_dlpack(t)):
            if t.dtype in PACKED:
                assert got.dtype == torch.uint8 and tuple(got.shape) == (t.nbytes,)
            else:
                shape = (*t.shape[:-1], t.shape[-1] // 2) if t.dtype == "F4" else t.shape
                assert got.dtype == getattr(torch, NUMBERS[t.dtype].torch) and tuple(got.shape) == shape, name
            assert got.numel() == 0 or bits(got)[: t.nbytes].numpy().tobytes() == bytes(t.read())
    for framework in ("load_file", "weights"):
        for name, got in dict(getattr(tensorfs, framework)(path)).items():
            assert outcome(lambda: got) == outcome(m.raw[m.raw._sources[name]].torch), name
