"""safe_open.prefetch: rows and tensors by a plan, of files that are mapped and of those that are converted."""

import gc
import importlib.util
import os
import subprocess
import sys
import threading

import numpy
import pytest
from conftest import DATA, LLAMA, write_safetensors
from test_safetensors import FRAMEWORKS, same

import tensorfs
from tensorfs import safetensors as ours

UP, DOWN, NORM = "model.layers.0.mlp.up_proj.weight", "model.layers.1.mlp.down_proj.weight", "model.norm.weight"
Named = ours._Named


@pytest.fixture
def held(monkeypatch):
    """Tensors that no thread gets before they are let go, by name."""
    doors: dict[str, threading.Event] = {}
    whole = Named.whole

    def waiting(self, t, copy):
        assert doors.get(t.name, done).wait(60)
        return whole(self, t, copy)

    done = threading.Event()
    done.set()
    monkeypatch.setattr(Named, "whole", waiting)
    yield doors
    for door in doors.values():
        door.set()


@pytest.fixture
def threads():
    before = threading.active_count()
    yield
    gc.collect()
    for t in threading.enumerate():
        if t.name == "tensorfs prefetch":
            t.join(60)
    assert threading.active_count() == before


@pytest.mark.parametrize("backend", ["mmap", "pread"])
@pytest.mark.parametrize("model", ["gguf/llama-xs.q4_k_m.gguf", "architectures/smollm3", "models-mlx/qwen3-mixed"])
def test_plan(model, backend, threads):
    """Every tensor, whole and in part, is what get_tensor and get_slice return."""
    pytest.importorskip("ml_dtypes")
    f = tensorfs.safe_open(DATA / model, FRAMEWORKS[-1], backend=backend)
    want = f.get_tensors()
    with f.prefetch() as loader:
        assert len(loader) == len(want) and loader.names() == f.offset_keys()
        got = dict(loader)
        assert dict(loader) == {}
    assert got.keys() == want.keys() and all(same(got[name], want[name]) for name in want)
    rows = {name: len(a) for name, a in want.items() if getattr(a, "ndim", 0)}
    plan = {name: slice(n // 3, n // 2 + 1) for name, n in reversed(rows.items())}
    with f.prefetch(plan, threads=2) as loader:
        assert loader.names() == [name for name in f.offset_keys() if name in plan]
        for name in rows:
            assert same(loader.take(name), want[name][plan[name]]), name


def test_forms(llama):
    f = tensorfs.safe_open(llama, "np")
    want = f.get_tensor(UP)
    for part, rows in ((slice(-3, None), want[-3:]), (slice(None), want), (slice(2, 2), want[2:2]), (slice(1, 4, 1), want[1:4]), (slice(numpy.int64(1), 2), want[1:2])):
        assert same(f.prefetch({UP: part}).take(UP), rows)


def test_converted_rows_alone(llama, monkeypatch):
    """Of a tensor that is converted, only the rows of the plan are."""
    sizes, read = [], ours.Tensor.read
    monkeypatch.setattr(ours.Tensor, "read", lambda t, first=0, end=None, into=None: (sizes.append((t.name, first, end)), read(t, first, end, into))[1])
    with tensorfs.safe_open(llama, "np").prefetch({UP: slice(2, 5)}) as loader:
        assert loader.take(UP).shape == (3, 64)
    assert sizes == [(UP, 2, 5)]


@pytest.mark.parametrize(
    "plan, error, words",
    [
        ({"nope": None}, KeyError, "does not contain"),
        ({3: None}, KeyError, "does not contain"),
        ({UP: slice(0, 3, 2)}, ValueError, "step 1"),
        ({UP: slice(0, 3, -1)}, ValueError, "step 1"),
        ({UP: slice(0, 3, 0)}, ValueError, "invalid prefetch plan slice"),
        ({UP: slice("a", 3)}, ValueError, "invalid prefetch plan slice"),
        ({UP: slice(0.0, 3)}, ValueError, "invalid prefetch plan slice"),
        ({UP: 3}, ValueError, "None or a slice"),
        ({UP: slice(0, 65)}, IndexError, "out of range of 64 rows"),
        ({UP: slice(-65, 3)}, IndexError, "out of range"),
        ({UP: slice(5, 4)}, IndexError, "out of range"),
        ({UP: slice(0, 2**70)}, IndexError, "out of range"),
        ({}, ValueError, "selects no tensors"),
        ([UP], ValueError, "dictionary"),
    ],
)
def test_wrong_plan(llama, plan, error, words):
    with pytest.raises(tensorfs.SafetensorError, match=words) as raised:
        tensorfs.safe_open(llama, "np").prefetch(plan)
    assert isinstance(raised.value, error) and isinstance(raised.value, tensorfs.Error)


@pytest.mark.parametrize("threads", [0, -1, 1.5, True, "2"])
def test_wrong_threads(llama, threads):
    with pytest.raises(tensorfs.SafetensorError, match="threads"):
        tensorfs.safe_open(llama, "np").prefetch(threads=threads)


def test_types(tmp_path):
    """Types whose numbers share bytes, and tensors without rows."""
    path = tmp_path / "x.safetensors"
    write_safetensors(path, {"f4": ("F4", [4, 8], 16), "f6": ("F6_E2M3", [4], 3), "one": ("F32", [], 4), "none": ("F16", [0, 5], 0)}, bytes(range(23)))
    for framework in FRAMEWORKS:
        f = tensorfs.safe_open(path, framework)
        got = f.prefetch({"f4": slice(1, 3), "f6": None, "one": None, "none": slice(0, 0)})
        assert same(got.take("f4"), f.get_slice("f4")[1:3]) and same(got.take("one"), f.get_tensor("one")) and got.take("none").shape == (0, 5)
        assert bytes(got.take("f6")) == bytes([16, 17, 18])
        with pytest.raises(tensorfs.SafetensorError, match="row by row"):
            f.prefetch({"f6": slice(0, 1)})
        with pytest.raises(tensorfs.SafetensorError, match="0-d"):
            f.prefetch({"one": slice(0, 1)})


def test_once(llama, threads):
    with tensorfs.safe_open(llama, "np").prefetch({UP: None, DOWN: None, NORM: slice(0, 8)}) as loader:
        loader.take(UP)
        with pytest.raises(tensorfs.SafetensorError, match="already delivered"):
            loader.take(UP)
        with pytest.raises(KeyError, match="not in the prefetch plan"):
            loader.take("model.embed_tokens.weight")
        assert {name for name, _ in loader} == {DOWN, NORM}
    for closed in (lambda: loader.take(UP), lambda: next(iter(loader))):
        with pytest.raises(tensorfs.SafetensorError, match="closed"):
            closed()


def test_order(llama, held, threads):
    """A loader hands out what is ready; what take asks for waits for nothing else."""
    held[UP] = threading.Event()
    f = tensorfs.safe_open(llama, "np")
    order = f.offset_keys()
    plan = dict.fromkeys([UP, *order[order.index(UP) + 1 :]])
    with f.prefetch(plan, threads=1) as loader:
        assert loader.names()[0] == UP  # which the only thread has
        assert same(loader.take(DOWN), f.get_tensor(DOWN))
        held[UP].set()
        assert next(iter(loader))[0] == UP
    held[UP].clear()
    with f.prefetch({UP: None, DOWN: None}, threads=2) as loader:
        pairs = iter(loader)
        assert next(pairs)[0] == DOWN
        held[UP].set()
        assert next(pairs)[0] == UP and next(pairs, None) is None


def test_close(llama, held, threads):
    """Closing frees what was not handed out, and afterwards the model can be closed."""
    held[UP] = threading.Event()
    loader = tensorfs.safe_open(llama, "np").prefetch()
    pairs = iter(loader)
    kept = next(pairs)[1].copy()
    held[UP].set()
    loader.close()
    loader.close()
    with pytest.raises(tensorfs.SafetensorError, match="closed"):
        next(pairs)
    del pairs
    gc.collect()
    llama.close()
    assert kept.size


def test_forgotten(llama, held, threads):
    """Threads end with the loader and the file; a loader outlives its file."""
    loader = tensorfs.safe_open(llama, "np").prefetch()
    gc.collect()
    assert len(dict(loader)) == len(llama.hf)
    held[UP] = threading.Event()
    f = tensorfs.safe_open(llama, "np")
    loader = f.prefetch(threads=1)
    work = loader._work
    del loader
    gc.collect()
    assert not work.closed
    del f
    gc.collect()
    assert work.closed
    held[UP].set()


def test_get_tensor_takes(llama, held):
    """What transformers does: prefetch, and then get_tensor and get_slice of the file. The answer is the same each time."""
    f = tensorfs.safe_open(llama, "np")
    want = {name: f.get_tensor(name) for name in (UP, DOWN)}
    held[UP] = threading.Event()
    f.prefetch({UP: None, DOWN: slice(1, 3)})
    gc.collect()
    work = f._begun[0]
    waiting = threading.Timer(0, held[UP].set)
    waiting.start()
    for _ in range(2):
        assert same(f.get_tensor(UP), want[UP]) and same(f.get_tensor(DOWN), want[DOWN]) and same(f.get_slice(UP)[1:2], want[UP][1:2])
    assert list(work.left) == [DOWN]
    waiting.join()
    with f.prefetch({UP: None}) as loader, f.prefetch({DOWN: None}) as other:  # two loaders, and the file as before
        assert same(f.get_tensor(UP), want[UP]) and same(loader.take(UP), want[UP]) and same(other.take(DOWN), want[DOWN])


def test_errors_are_raised_where_asked(llama, monkeypatch):
    def fails(self, t, copy):
        raise tensorfs.Changed(f"{t.name} changed")

    f = tensorfs.safe_open(llama, "np")
    monkeypatch.setattr(Named, "whole", fails)
    with f.prefetch({UP: None, DOWN: None}) as loader:
        with pytest.raises(tensorfs.SafetensorError, match="up_proj.weight changed") as raised:
            loader.take(UP)
        assert isinstance(raised.value, tensorfs.Changed)
        with pytest.raises(tensorfs.Changed, match="down_proj.weight changed"):
            next(iter(loader))


def test_many_takers(llama):
    """Each tensor is handed out once, to any caller."""
    for _ in range(5):
        got, refused = [], []
        with tensorfs.safe_open(llama, "np").prefetch(threads=3) as loader:

            def take():
                for name in loader.names():
                    try:
                        loader.take(name)
                        got.append(name)
                    except tensorfs.Invalid:
                        refused.append(name)

            def walk():
                got.extend(name for name, _ in loader)

            takers = [threading.Thread(target=t) for t in (take, take, walk)]
            for t in takers:
                t.start()
            for t in takers:
                t.join(60)
            assert sorted(got) == sorted(loader.names()) and not any(t.is_alive() for t in takers)


def test_written_to(llama):
    """What is handed out is the caller's."""
    for model in (llama, DATA / "architectures/smollm3"):  # converted, and mapped
        with tensorfs.safe_open(model, FRAMEWORKS[-1]) as f:
            want = f.get_tensor(NORM).__deepcopy__({})
            f.prefetch({NORM: None}).take(NORM)[...] = 0
            assert same(f.get_tensor(NORM), want)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_fork_and_exit():
    """A child of a fork is refused and does not wait; a program ends while threads prefetch."""
    code = f"""
import os, sys, tensorfs
f = tensorfs.safe_open({str(LLAMA)!r}, "np")
loader = f.prefetch()
pid = os.fork()
if pid == 0:
    for ask in (lambda: loader.take({UP!r}), lambda: next(iter(loader)), f.prefetch):
        try:
            ask()
            os._exit(1)
        except tensorfs.Forked:
            pass
    loader.close()
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
kept = f.prefetch()
print("done")
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


@pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="torch is tested by scripts/test programs")
def test_device(llama):
    import torch

    with tensorfs.safe_open(llama, "pt").prefetch({UP: slice(0, 2), NORM: None}, device="meta") as loader:
        got = dict(loader)
    assert all(t.device == torch.device("meta") for t in got.values()) and got[UP].shape == (2, 64)
