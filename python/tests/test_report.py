"""The figures of `tensorfs report` are those that NumPy finds in float64."""

from __future__ import annotations

import json
import math

import ml_dtypes
import numpy
import pytest
from conftest import DATA, EVERY, program, write_safetensors

import tensorfs

TYPES = {"F32": numpy.float32, "F16": numpy.float16, "BF16": ml_dtypes.bfloat16}
RANDOM = numpy.random.default_rng(27)


def write(path, tensors: dict[str, numpy.ndarray]):
    """A safetensors file of arrays."""
    names = {dtype: name for name, dtype in TYPES.items()}
    path.parent.mkdir(exist_ok=True)
    write_safetensors(path, {n: (names[a.dtype.type], list(a.shape), a.nbytes) for n, a in tensors.items()}, b"".join(a.tobytes() for a in tensors.values()))
    return path


def cells(*arguments) -> dict[str, dict]:
    return {c["name"]: c for c in json.loads(program("report", "--json", *arguments))["cells"]}


def near(got: float, want: float, of: float | None = None, tolerance: float = 1e-12) -> None:
    assert abs(got - want) <= tolerance * abs(want if of is None else of), (got, want)


def q4_0(blocks: numpy.ndarray) -> numpy.ndarray:
    """What ggml's Q4_0 gives back of blocks of 32 F32 numbers."""
    largest = numpy.take_along_axis(blocks, numpy.abs(blocks).argmax(axis=1)[:, None], 1)
    d = largest / numpy.float32(-8)
    inverse = numpy.divide(numpy.float32(1), d, out=numpy.zeros_like(d), where=d != 0)
    codes = numpy.minimum(15, numpy.trunc(blocks * inverse + numpy.float32(8.5)))
    return (codes - 8).astype(numpy.float32) * d.astype(numpy.float16).astype(numpy.float32)


def q8_0(blocks: numpy.ndarray) -> numpy.ndarray:
    d = numpy.abs(blocks).max(axis=1)[:, None] / numpy.float32(127)
    inverse = numpy.divide(numpy.float32(1), d, out=numpy.zeros_like(d), where=d != 0)
    x = (blocks * inverse).astype(numpy.float64)
    codes = numpy.sign(x) * numpy.floor(numpy.abs(x) + 0.5)
    return codes.astype(numpy.float32) * d.astype(numpy.float16).astype(numpy.float32)


def lines(got: list[dict], squares: numpy.ndarray) -> None:
    """The largest rows or columns, by their mean squares."""
    rms = numpy.sqrt(squares)
    median = numpy.sort(rms)[len(rms) // 2]
    ratios = rms / median if median > 0 else numpy.zeros_like(rms)
    if median > 0:
        numpy.testing.assert_allclose([line["ratio"] for line in got], numpy.sort(ratios)[::-1][:8], rtol=1e-12)
    for line in got:
        near(line["ratio"], ratios[line["index"]])


def check(cell: dict, a: numpy.ndarray) -> None:
    a = numpy.atleast_1d(a)
    single = a.astype(numpy.float32)
    x = single.astype(numpy.float64).ravel()
    finite = x[numpy.isfinite(x)]
    assert (cell["count"], cell.get("non_finite", 0), cell["zeros"]) == (x.size, x.size - finite.size, int((finite == 0).sum()))
    if not finite.size:
        return
    assert (cell["min"], cell["max"]) == (finite.min(), finite.max())
    rms = math.sqrt(numpy.mean(finite**2))
    near(cell["mean"], finite.mean(), max(rms, abs(finite.mean())))
    near(cell["rms"], rms)
    if rms == 0:
        return
    near(cell["peak"], numpy.abs(finite).max() / rms)
    near(cell["kurtosis"], numpy.mean(finite**4) / numpy.mean(finite**2) ** 2)
    at = numpy.floor(finite * (61 / (12 * rms)) + 30.5)
    assert cell["bins"] == numpy.bincount(at[(at >= 0) & (at < 61)].astype(int), minlength=61).tolist()
    if finite.size < x.size:
        assert "q4" not in cell and "q8" not in cell
    elif a.shape[-1] % 32 == 0:
        blocks = single.reshape(-1, 32)
        for figure, quantise in (("q4", q4_0), ("q8", q8_0)):
            with numpy.errstate(over="ignore", invalid="ignore"):  # a scale that is no finite half
                change = blocks.astype(numpy.float64) - quantise(blocks).astype(numpy.float64)
            if not numpy.isfinite(change).all():
                assert figure not in cell
                continue
            # Differences are rounded to F32 before they are squared.
            near(cell[figure], math.sqrt(numpy.mean(change**2)) / rms, tolerance=1e-7)
    else:
        assert "q4" not in cell and "q8" not in cell
    if a.ndim > 1 and a.shape[-1] > 1 and a.size > a.shape[-1]:
        matrix = numpy.where(numpy.isfinite(x), x, 0).reshape(-1, a.shape[-1]) ** 2
        lines(cell["columns"], matrix.mean(axis=0))
        lines(cell["rows"], matrix.mean(axis=1))
    else:
        assert "columns" not in cell and "rows" not in cell


def numbers(dtype: str, shape: tuple[int, ...], *, broken: bool = False) -> numpy.ndarray:
    a = RANDOM.standard_t(8, shape) * 0.02
    a[..., shape[-1] // 3] *= 9
    a.ravel()[5::41] = 0
    if broken:
        a.ravel()[[1, 4, -1]] = numpy.nan, numpy.inf, -numpy.inf
    return a.astype(TYPES[dtype])


@pytest.mark.parametrize("dtype", TYPES)
def test_floats(dtype, tmp_path):
    """One look is enough at some of these tensors, and not at others; the last one is more than a stretch of sums."""
    shapes = ((7,), (64,), (3, 5), (40, 96), (4, 24, 32), (300, 416), (1, 128), (900, 1300))
    tensors = {f"layers.{i}.{k}.weight": numbers(dtype, shape, broken=k == "broken") for i, shape in enumerate(shapes) for k in ("good", "broken")}
    tensors["zero.weight"] = numpy.zeros((32, 32), TYPES[dtype])
    tensors["one.weight"] = numpy.ones((400, 256), TYPES[dtype])
    found = cells(write(tmp_path / "model.safetensors", tensors))
    assert set(found) == set(tensors)
    for name, a in tensors.items():
        check(found[name], a)


@pytest.mark.parametrize("model", EVERY, ids=lambda m: str(m.relative_to(DATA)))
def test_models(model):
    """Tensors of all types, quantised ones by the numbers of f32/."""
    try:
        f32 = tensorfs.open(model).f32
    except tensorfs.Error:  # it is there to be refused
        pytest.skip("it is no model")
    found, checked = cells(model), 0
    for name in f32:
        if name in found and found[name].get("count"):  # NumPy has no arrays of nothing by 2^62
            check(found[name], f32[name].numpy())
            checked += 1
    assert checked == sum(bool(math.prod(t.shape)) for n, t in f32.items() if n in found)


def signs(columns: int) -> numpy.ndarray:
    """The 32 columns of signs by which report multiplies differences: splitmix64, the upper half of each number."""
    mask, step, list_ = (1 << 64) - 1, 0x9E3779B97F4A7C15, []
    state = step
    for _ in range(columns):
        state = (state + step) & mask
        z = ((state ^ state >> 30) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ z >> 27) * 0x94D049BB133111EB) & mask
        list_.append([1.0 if (z ^ z >> 31) >> 32 >> k & 1 else -1.0 for k in range(32)])
    return numpy.array(list_)


def effective_rank(matrix: numpy.ndarray) -> float:
    squares = numpy.linalg.svd(matrix, compute_uv=False) ** 2
    p = squares / squares.sum()
    p = p[p > 1e-12]
    return math.exp(-(p * numpy.log(p)).sum())


def test_differences(tmp_path):
    """How two models differ, and the difference's rank: numpy.linalg.svd's rank of a sketch, which is close to it."""
    rows, columns = 220, 160
    base, tuned = {}, {}
    for rank in (0, 1, 2, 4, 8, 200):
        a = RANDOM.standard_normal((rows, columns)) * 0.02
        change = RANDOM.standard_normal((rows, rank)) @ RANDOM.standard_normal((rank, columns)) * 0.001
        base[f"layers.{rank}.a.weight"], tuned[f"layers.{rank}.a.weight"] = a.astype(numpy.float32), (a + change).astype(numpy.float32)
    tuned["layers.1.a.weight"][::2] = base["layers.1.a.weight"][::2]  # half of the numbers are equal
    found = cells(write(tmp_path / "base/model.safetensors", base), write(tmp_path / "tuned/model.safetensors", tuned))
    for name in base:
        a, b = base[name].astype(numpy.float64), tuned[name].astype(numpy.float64)
        d, change, planted = b - a, found[name]["change"], int(name.split(".")[1])
        if planted == 0:
            assert change["status"] == "equal"
            continue
        assert (change["status"], change["part"]) == ("changed", (d != 0).mean())
        assert change["largest"] == numpy.abs(d).max()
        near(change["relative"], numpy.linalg.norm(d) / numpy.linalg.norm(a))
        near(change["cosine"], (a * b).sum() / numpy.linalg.norm(a) / numpy.linalg.norm(b))
        sketch, exact = effective_rank(d @ signs(columns)), effective_rank(d)
        if sketch >= 24:
            assert change["rank"] == 24 and exact > 24
            continue
        near(change["rank"], sketch, tolerance=1e-6)
        assert abs(sketch - exact) <= 0.2 * exact, (planted, sketch, exact)
