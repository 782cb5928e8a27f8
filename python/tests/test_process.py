"""Memory, lifetimes, threads, forks and signals: what a process sees."""

import collections
import faulthandler
import gc
import multiprocessing
import os
import subprocess
import sys
import textwrap
import threading

import numpy
import pytest
from conftest import LLAMA, write_safetensors

import tensorfs
from tensorfs import _model

NAME = "layers.0.attention.q.weight"
linux = pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")


def memory(what: str) -> int:
    """Of this process, in bytes."""
    for line in open("/proc/self/status"):
        if line.startswith(what + ":"):
            return int(line.split()[1]) << 10
    raise KeyError(what)


def child(code: str, *arguments: object, **options: object) -> subprocess.CompletedProcess:
    command = [sys.executable, "-X", "faulthandler", "-c", textwrap.dedent(code), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, **options)


@linux
def test_nothing_is_copied(tmp_path):
    size = 512 << 20
    write_safetensors(tmp_path / "large.safetensors", {"x": ("F32", [size // 4096, 1024], size)})
    m = tensorfs.open(tmp_path / "large.safetensors")
    before, files = memory("RssAnon"), memory("RssFile")
    a = m.raw["x"].numpy()
    assert not a.any() and a.nbytes == size
    assert memory("RssAnon") - before < 8 << 20 and memory("RssFile") - files > size // 2


@linux
@pytest.mark.parametrize("get", ["tensorfs.open(sys.argv[1]).raw['x'].numpy()", "tensorfs.load_file(sys.argv[1], framework='np')['x']"])
def test_processes_share(tmp_path, get):
    size = 64 << 20
    write_safetensors(tmp_path / "large.safetensors", {"x": ("F32", [size // 4], size)})
    code = f"""
        import sys, tensorfs
        a = {get}
        a.sum(); print("ready", flush=True); sys.stdin.readline()
    """
    command = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path / "large.safetensors")]
    both = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        assert [p.stdout.readline() for p in both] == ["ready\n"] * 2
        smaps = open(f"/proc/{both[0].pid}/smaps").read().split("large.safetensors", 1)[1]
        value = {line.split(":")[0]: int(line.split()[1]) << 10 for line in smaps.splitlines()[1:20] if line.endswith("kB")}
        assert value["Rss"] > size // 2 and value["Pss"] < value["Rss"] * 3 // 4 and value["Private_Dirty"] == 0
    finally:
        for p in both:
            p.communicate("\n")


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (1, 3, 0, 2)])
def test_collected_in_any_order(order):
    m = tensorfs.open(LLAMA)
    t = m.f16[NAME]
    a = t.numpy()
    held = [m, t, a, a[1:]]
    want = a[1:].tobytes()
    view = held[3]
    del m, t, a
    for i in order:
        held[i] = None
        gc.collect()
        assert view.tobytes() == want
    del view
    gc.collect()


def test_close():
    m = tensorfs.open(LLAMA)
    a = m.f16[NAME].numpy()
    with pytest.raises(BufferError, match=NAME):
        m.close()
    assert a.any()
    del a
    gc.collect()
    m.close()
    m.close()
    with pytest.raises(ValueError, match="closed"):
        m.f16[NAME]
    with tensorfs.open(LLAMA) as m:
        pass


@linux
def test_opens_do_not_grow():
    def once() -> None:
        m = tensorfs.open(LLAMA)
        m.raw[NAME].numpy()
        m.files["config.json"].read()

    for _ in range(1000):
        once()
    gc.collect()
    before, files = memory("RssAnon"), len(os.listdir("/proc/self/fd"))
    for _ in range(9000):
        once()
    gc.collect()
    assert memory("RssAnon") - before < 16 << 20 and len(os.listdir("/proc/self/fd")) <= files + 2


@pytest.mark.parametrize("where", ["main", "thread", "atexit", "cycle"])
def test_exit_with_living_tensors(where):
    done = child(
        """
        import atexit, sys, threading, tensorfs
        def use(kept=[]):
            m = tensorfs.open(sys.argv[1]); kept.extend([m, m.f16[sys.argv[2]].numpy(), m.load("f32")]); kept.append(kept)
            assert kept[1].any()
        where = sys.argv[3]
        if where == "thread": threading.Thread(target=use).start()
        elif where == "atexit": atexit.register(use)
        else: use()
        print("fine")
        """,
        LLAMA, NAME, where,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "fine\n", "")


forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")


@forks
def test_fork(llama):
    a = llama.raw[NAME].numpy()
    want, out = a.tobytes(), os.pipe()
    pid = os.fork()
    if pid == 0:
        said = b""
        try:
            same = a.tobytes() == want  # what is mapped can be read
            tensorfs.open(LLAMA)
        except tensorfs.Forked as e:
            said = b"forked" if same and "spawn" in str(e) else b"other"
        finally:
            os.write(out[1], said)
            os._exit(0)
    os.close(out[1])
    assert os.read(out[0], 100) == b"forked"
    os.waitpid(pid, 0)
    os.close(out[0])


def _sum(m: tensorfs.Model) -> float:
    return float(m.f32[NAME].numpy().sum())


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_processes_that_start_anew(llama, method):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"there is no {method}")
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map(_sum, [llama, llama]) == [_sum(llama)] * 2


@forks
def test_fork_before_use():
    """A process that only imported the package may fork, and its children use it."""
    done = child(
        """
        import multiprocessing, sys, tensorfs
        def bytes_of(name): return tensorfs.open(sys.argv[1]).f16[name].nbytes
        with multiprocessing.get_context("fork").Pool(2) as pool:
            print(pool.map(bytes_of, [sys.argv[2]] * 4))
        """,
        LLAMA, NAME,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{[8192] * 4}\n", "")


def test_subinterpreter():
    """Callbacks of ctypes come back in the main interpreter, so that no other may use the library."""
    done = child(
        """
        import sys
        try:
            import _interpreters as i
        except ImportError:
            import _xxsubinterpreters as i
        import tensorfs
        tensorfs.open(sys.argv[1])
        code = f"import sys; sys.path = {sys.path!r}\\ntry:\\n import tensorfs; tensorfs.open({sys.argv[1]!r})\\nexcept ImportError as e: print(e, flush=True)"
        other = i.create()
        said = i.run_string(other, code)
        i.destroy(other)
        print(said, tensorfs.open(sys.argv[1]).format)
        """,
        LLAMA,
    )
    # Where interpreters have a lock each, ctypes itself refuses.
    assert done.returncode == 0 and done.stdout.endswith("\nNone gguf\n") and ("main interpreter" in done.stdout or "_ctypes" in done.stdout), done


def test_data_loader(llama):
    torch = pytest.importorskip("torch", reason="torch is tested by scripts/test programs")
    from torch.utils.data import DataLoader

    names = list(llama.f32)
    rows = [(llama, name) for name in names]
    want = [float(llama.f32[name].numpy().astype(numpy.float64).sum()) for name in names]
    for method in ("spawn", "forkserver"):
        got = DataLoader(rows, batch_size=None, num_workers=2, collate_fn=_of, multiprocessing_context=method)
        assert [float(x) for x in got] == want
    # A fork has what was mapped before it, and nothing else.
    mapped = [torch.from_numpy(numpy.array(1.0)), llama.raw["layers.0.attention_norm.weight"].torch()]
    got = DataLoader(mapped, batch_size=None, num_workers=2, collate_fn=_total, multiprocessing_context="fork")
    assert [float(x) for x in got] == [_total(t) for t in mapped]
    with pytest.raises(RuntimeError, match="spawn"):
        list(DataLoader(rows, batch_size=None, num_workers=2, collate_fn=_of, multiprocessing_context="fork"))


def _total(t):
    return float(t.double().sum())


def _of(row):
    return numpy.float64(row[0].f32[row[1]].numpy().astype(numpy.float64).sum())


def test_threads(llama):
    faulthandler.enable()
    names, failures = list(llama.f16), []
    want = {name: bytes(llama.f16[name].memoryview()) for name in names}

    def work(k: int) -> None:
        try:
            for i in range(50):
                name = names[(i * 7 + k) % len(names)]
                assert bytes(llama.f16[name].memoryview()) == want[name]
                if i % 10 == k % 10:
                    llama.load("f32", names=[name])
        except BaseException as e:  # noqa: BLE001
            failures.append(e)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(16)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


def test_interrupted_load(tmp_path):
    size = 256 << 20
    write_safetensors(tmp_path / "large.safetensors", {f"t{i}": ("F32", [size // 4], size) for i in range(16)})
    done = child(
        """
        import os, signal, sys, tensorfs
        signal.signal(signal.SIGINT, signal.default_int_handler)  # shells have it ignored in what they run in the background
        m = tensorfs.open(sys.argv[1])
        sent = []
        def told(done, total):
            if not sent: sent.append(os.kill(os.getpid(), signal.SIGINT))
        try:
            m.load("f16", progress=told)
        except KeyboardInterrupt:
            print("interrupted")
        m.close()
        """,
        tmp_path / "large.safetensors",
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted\n", "")


def test_interrupted_load_file(tmp_path):
    """What no thread has begun is not converted any more."""
    size = 1 << 20
    write_safetensors(tmp_path / "model.safetensors", {f"t{i:03}": ("F32", [size // 4], size) for i in range(200)})
    done = child(
        """
        import os, signal, sys, tensorfs
        from tensorfs import _model
        signal.signal(signal.SIGINT, signal.default_int_handler)
        reads, call = [], _model.call
        def counted(name, *arguments):
            if name == "read": reads.append(name)
            return call(name, *arguments)
        _model.call = counted
        try:
            tensorfs.load_file(sys.argv[1], framework="np", copy=True, progress=lambda done, total: os.kill(os.getpid(), signal.SIGINT))
        except KeyboardInterrupt:
            print("interrupted", len(reads) < 20)
        """,
        tmp_path / "model.safetensors",
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted True\n", "")


def test_faults(tmp_path):
    with pytest.raises(FileNotFoundError, match="nothing.gguf"):
        tensorfs.open(tmp_path / "nothing.gguf")
    with pytest.raises(tensorfs.NotFound):
        tensorfs.open("hf:no/such-model", offline=True)
    (tmp_path / "cut.gguf").write_bytes(LLAMA.read_bytes()[:5000])
    with pytest.raises(ValueError, match="cut.gguf"):
        tensorfs.open(tmp_path / "cut.gguf")
    path = tmp_path / "model.gguf"
    path.write_bytes(LLAMA.read_bytes())
    m = tensorfs.open(path)
    with path.open("r+b") as f:
        f.truncate(4000)
    with pytest.raises(tensorfs.Changed, match="model.gguf"):
        m.f16[NAME].numpy()
    with pytest.raises(tensorfs.Changed):
        m.f16[NAME].read()


def test_many_and_strange_names(tmp_path, monkeypatch):
    names = {f"model.layers.{i}.mlp.experts.{j}.up_proj.weight": ("F32", [2], 8) for i in range(100) for j in range(500)}
    names |= {"../../etc/passwd": ("F32", [2], 8), "a\nb": ("F32", [2], 8), "<b>\u202e": ("F32", [2], 8)}
    write_safetensors(tmp_path / "many.safetensors", names)
    m = tensorfs.open(tmp_path / "many.safetensors")
    calls, call = collections.Counter(), _model.call
    monkeypatch.setattr(_model, "call", lambda name, *arguments: (calls.update([name]), call(name, *arguments))[1])
    assert len(m.raw) == len(names) == len(list(m.raw)) and len(list(m.raw)) == len(names)
    assert sum(calls.values()) <= 8, calls  # lengths; the names are asked for at once
    view = m.raw
    assert all(name in view for name in view) and sum(t.nbytes for t in view.values()) == 8 * len(names)
    assert calls.pop("info") == len(names) and sum(calls.values()) <= 8, calls  # and one for each tensor
    monkeypatch.undo()
    assert "<b>" not in m._repr_html_().replace("<b>" + str(tmp_path), "")
    assert {m.raw[name].source_name for name in ("../../etc/passwd", "a\nb")} == {"../../etc/passwd", "a\nb"}


def test_pickled_name_and_options(llama):
    import pickle

    m = pickle.loads(pickle.dumps(tensorfs.open(LLAMA, views=["f32"])))
    assert m.views == ("f32",) and m.path == llama.path


@pytest.mark.skipif("TENSORFS_ASAN" not in os.environ, reason="the library is built without AddressSanitizer: scripts/test-python --asan")
def test_sanitizer_watches():
    """What the library writes after the end of the memory that it was given is seen: the other tests ran under a sanitizer that works."""
    done = child(
        """
        import ctypes, sys, tensorfs
        from tensorfs._lib import call
        libc = ctypes.CDLL(None)
        libc.malloc.restype = ctypes.c_void_p
        m = tensorfs.open(sys.argv[1])
        call("file_read", m._loader._address, b"config.json", 0, libc.malloc(ctypes.c_size_t(10)), 100)
        """,
        LLAMA,
    )
    assert done.returncode != 0 and "AddressSanitizer: heap-buffer-overflow" in done.stderr, done.stderr
