"""What a closed model's tensors, files and iterators do, and models that are closed while they are used: errors, and no memory that is freed."""

import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading

import pytest
from conftest import LLAMA

import tensorfs
from tensorfs import _model
from tensorfs._lib import Closed

NAME = "layers.0.attention.q.weight"


def test_everything_is_refused():
    m = tensorfs.open(LLAMA)
    t, raw, file, view = m.f32[NAME], m.raw[NAME], m.files["config.json"], m.f32
    stream, iterator = file.open(), iter(m.files)
    fields = [(x.name, x.dtype, x.shape, x.nbytes, x.source_name, x.sections, x.quant, x.plain, repr(x)) for x in (t, raw)]
    m.close()
    others = [tensorfs.open(LLAMA) for _ in range(20)]  # which take the memory that the closed one had
    kept = [o.raw[name] for o in others for name in list(o.raw)[:3]]
    assert [(x.name, x.dtype, x.shape, x.nbytes, x.source_name, x.sections, x.quant, x.plain, repr(x)) for x in (t, raw)] == fields
    uses = dict(
        numpy=t.numpy, torch=raw.torch, memoryview=t.memoryview, read=t.read, origin=lambda: t.origin, mapped=lambda: raw.mapped, dlpack=t.__dlpack__,
        interface=lambda: t.__array_interface__, array=t.__array__, buffer=lambda: t.__buffer__(0), tensor=lambda: m.f16[NAME],
        names=lambda: list(view), length=lambda: len(view), has=lambda: NAME in view, absent=lambda: m.absent("f16", "x"), load=lambda: m.load("f16", [NAME]),
        config=lambda: m.config, metadata=lambda: m.metadata, files=lambda: m.files["README"], is_in=lambda: "README" in m.files, list=lambda: m.files.list(),
        file=file.read, stream=lambda: stream.read(1), iterate=lambda: list(iterator), weights=lambda: list(tensorfs.weights(m, framework="np")),
        load_file=lambda: tensorfs.load_file(m, framework="np"), safe_open=lambda: tensorfs.safe_open(m, "np"),
    )  # fmt: skip
    for name, use in uses.items():
        try:
            with pytest.raises(Closed, match="closed"):
                use()
        except ImportError:
            assert name == "torch"
    m.close()  # again is nothing
    assert len(kept) == 60


def test_handles_that_outlive(llama):
    """Handles, slices, generators and arrays of safe_open, while a model is closed or collected."""
    pytest.importorskip("ml_dtypes")
    with tensorfs.open(LLAMA) as m:
        f = tensorfs.safe_open(m, "np")
        s, names = f.get_slice("model.norm.weight"), f.keys()
        want = s[:].tobytes()
    for use in (lambda: f.get_tensor(names[0]), lambda: f.get_slice(names[0]), lambda: s[:], lambda: s[...], f.metadata, f.get_tensors):
        with pytest.raises(Closed):
            use()
    with tensorfs.safe_open(LLAMA, "np") as f:
        s, a = f.get_slice("model.norm.weight"), f.get_tensor("model.norm.weight")
    for use in (f.keys, f.offset_keys, f.metadata, f.get_tensors, lambda: f.get_tensor(names[0]), lambda: f.get_slice(names[0])):
        with pytest.raises(Closed, match="with block"):
            use()
    del f
    gc.collect()
    assert s[:].tobytes() == a.tobytes() == want  # a slice and an array keep what they need
    m = tensorfs.open(LLAMA)
    g = tensorfs.weights(m, framework="np", copy=True)
    next(g)
    try:
        m.close()
        with pytest.raises(Closed):
            list(g)
    except BufferError:  # a thread of it converts the next tensor
        g.close()
        m.close()


def test_close_beside_calls(monkeypatch):
    """close is refused while a call runs, and works after it."""
    m = tensorfs.open(LLAMA)
    inside, go_on, refused = threading.Event(), threading.Event(), []
    call = _model.call

    def slow(name, *arguments):
        if name == "info":
            inside.set()
            go_on.wait(60)
        return call(name, *arguments)

    monkeypatch.setattr(_model, "call", slow)
    got = []
    thread = threading.Thread(target=lambda: got.append(m.f16[NAME].dtype))
    thread.start()
    inside.wait(60)
    with pytest.raises(BufferError, match="running"):
        m.close()
    go_on.set()
    thread.join()
    assert got == ["F16"] and not refused
    m.close()


def test_close_beside_load():
    m = tensorfs.open(LLAMA)
    said = []

    def told(done, total):
        try:
            m.close()
        except BufferError as e:
            said.append(e)

    loaded = m.load("f16", progress=told)
    assert said and bytes(loaded[NAME].memoryview()) == bytes(m.f16[NAME].read())
    with pytest.raises(BufferError):
        m.close()
    assert m.load("f16", []) == {}
    del loaded
    gc.collect()
    m.close()


USES = """
    import faulthandler, gc, os, random, sys, threading, time, tensorfs
    faulthandler.enable()
    path, name, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
    with tensorfs.open(path) as m:
        want = {v: bytes(m[v][name].read()) for v in ("raw", "f16")}
        source, names = m.raw[name].source_name, len(m.raw)
    models, wrong, done = [tensorfs.open(path) for _ in range(3)], [], [0]
    def use(m):
        v = random.choice(["raw", "f16"])
        k = random.randrange(9)
        if k == 0: assert bytes(m[v][name].memoryview()) == want[v]
        if k == 1: assert bytes(m[v][name].read()) == want[v]
        if k == 2: assert m.raw[name].source_name == source and m.raw[name].sections is not None
        if k == 3: assert m.config["architecture"] == "llama"
        if k == 4: assert bytes(m.load(v, [name])[name].memoryview()) == want[v]
        if k == 5: assert m[v][name].numpy().tobytes() == want[v]
        if k == 6: assert len(m._loader.strings("names", b"raw")) == names and m.files.list("hf")
        if k == 7: assert m[v][name]._own() is not None and bytes(m[v][name]._own()) == want[v]
        if k == 8:
            g = tensorfs.weights(m, framework="np", copy=True); next(g); next(g)
            if random.random() < .5: g.close()
        done[0] += 1
    def work():
        while time.monotonic() < end and not wrong:
            i = random.randrange(3)
            try:
                if random.random() < .15: models[i].close(); models[i] = tensorfs.open(path)
                else: use(models[i])
            except (tensorfs.Error, BufferError) as e:
                if not isinstance(e, BufferError) and "closed" not in str(e): wrong.append(e)
            except BaseException as e: wrong.append(e)
    end = time.monotonic() + seconds
    threads = [threading.Thread(target=work) for _ in range(6)]
    [t.start() for t in threads]
"""


def run(code: str, *arguments: object) -> subprocess.CompletedProcess:
    command = [sys.executable, "-X", "faulthandler", "-c", textwrap.dedent(code), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def test_threads_that_close():
    pytest.importorskip("ml_dtypes")
    done = run(USES + "    [t.join() for t in threads]\n    print(done[0] > 10, wrong)\n", LLAMA, NAME, 4)
    assert (done.returncode, done.stdout) == (0, "True []\n"), done


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_forks_beside_threads():
    """A child that was forked while threads used models is refused at once, and does not wait for locks of theirs."""
    pytest.importorskip("ml_dtypes")
    code = USES + f"""
    kept = tensorfs.open(path); t = kept.raw[name]; v = t.memoryview()
    children = []
    while time.monotonic() < end:
        pid = os.fork()
        if pid == 0:
            import signal
            signal.setitimer(signal.ITIMER_REAL, 60); signal.signal({int(signal.SIGALRM)}, signal.SIG_DFL)
            said = []
            for f in (t.read, lambda: kept.f16[name], lambda: kept.config, kept.close, lambda: tensorfs.open(path), lambda: kept.load("f16", [name]), lambda: list(kept.files)):
                try: f()
                except tensorfs.Forked as e: said.append("'spawn' or 'forkserver'" in str(e))
                except BaseException as e: said.append(repr(e))
            os._exit(0 if said == [True] * 7 and bytes(v) == want["raw"] else 1)
        children.append(os.waitpid(pid, 0)[1])
    [t.join() for t in threads]
    print(len(children) > 2, set(children), wrong)
    """
    done = run(code, LLAMA, NAME, 3)
    assert (done.returncode, done.stdout) == (0, "True {0} []\n"), done
