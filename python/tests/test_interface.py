"""The methods, signatures and errors of safetensors, and its own tests over the functions of this package."""

import importlib.util
import inspect
import json
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy
import pytest
from conftest import LLAMA, write_safetensors

import tensorfs

safetensors = pytest.importorskip("safetensors")
OWN = Path(os.environ.get("TENSORFS_SAFETENSORS", "none"))  # the sources of safetensors, which scripts/programs/setup fetches
# Of the tests of safetensors, those that cannot run or pass over this package, and why.
LEFT_OUT = {
    "test_flax_comparison.py": "they test the arrays of JAX",
    "test_tf_comparison.py": "they test the arrays of TensorFlow",
}
FAILS: dict[str, str] = {}
SKIPS = ("is not available", "Only 1 device", "Mlx is not available", "s3 access")  # in its own words
PASS = 66


def methods(kind):
    return {n for n in dir(kind) if not n.startswith("_")}


def takes_calls_of(ours, theirs):
    """Whether ours can be called as theirs: with the same arguments by their places and by their names, and with no other."""
    mine, wanted = inspect.signature(ours), inspect.signature(theirs).parameters
    places = [n for n, p in wanted.items() if p.kind is p.POSITIONAL_OR_KEYWORD]
    try:
        mine.bind(*places, **{n: n for n in wanted if n not in places})
        mine.bind(**{n: n for n in wanted})
        mine.bind(**{n: n for n, p in wanted.items() if p.default is p.empty})
    except TypeError:
        return False
    return list(mine.parameters)[: len(places)] == places


def test_methods(tmp_path):
    """A method, an argument or a function that safetensors has and this package lacks."""
    numpy_file = tmp_path / "x.safetensors"
    write_safetensors(numpy_file, {"a": ("F32", [2, 3], 24)}, bytes(24))
    with safetensors.safe_open(numpy_file, "np") as theirs, tensorfs.safe_open(numpy_file, "np") as ours:
        assert methods(theirs) - methods(ours) == set()
        assert methods(theirs.get_slice("a")) - methods(ours.get_slice("a")) == set()
        pairs = [(tensorfs.safe_open, safetensors.safe_open)]
        pairs += [(getattr(ours, n), getattr(theirs, n)) for n in methods(theirs)]
        pairs += [(getattr(ours.get_slice("a"), n), getattr(theirs.get_slice("a"), n)) for n in methods(theirs.get_slice("a"))]
    for framework in ("numpy", "torch"):
        if framework == "numpy" or importlib.util.find_spec("torch"):
            pairs.append((tensorfs.load_file, importlib.import_module("safetensors." + framework).load_file))
    for ours, theirs in pairs:
        assert takes_calls_of(ours, theirs), (inspect.signature(ours), inspect.signature(theirs))
    # What 0.9 adds, which is not released: https://github.com/safetensors/safetensors/pull/848
    assert {"prefetch", "get_tensor_meta"} <= methods(tensorfs.safe_open)
    assert {"names", "take", "close", "__iter__", "__len__", "__enter__"} <= set(dir(tensorfs.PrefetchLoader))


WRONG = {
    "no file": lambda open_, path: open_(path.parent / "nothing.safetensors", "np"),
    "a cut file": lambda open_, path: open_(path.parent / "cut.safetensors", "np"),
    "a framework": lambda open_, path: open_(path, "xx"),
    "a backend": lambda open_, path: open_(path, "np", backend="xx"),
    "a name": lambda open_, path: open_(path, "np").get_tensor("nothing"),
    "a name of a slice": lambda open_, path: open_(path, "np").get_slice("nothing"),
    "a closed file": lambda open_, path: closed(open_, path).keys(),
    "a closed file's tensor": lambda open_, path: closed(open_, path).get_tensor("a"),
    "no path": lambda open_, path: open_(3, "np"),
}
INDICES = [
    slice(None, 20), slice(1, 4), slice(5, 9), (slice(None), slice(None, 20)), (slice(2, None), 20), (slice(1, None), -6), 3, -4, (0, 0, 0), [0, 1], "x", None, 1.5,
    (..., ...), slice(None, None, 0), (slice(None, None, 2), slice(3, 9, 2)), (..., 9),
]  # fmt: skip
GOOD = [[], (), ..., slice(0, 3), (slice(1, 2), slice(0, 4)), -1, (..., -1), numpy.int64(1), True, slice(None, None, 2), (slice(0, 3, 2), slice(1, 4, 2)), slice(2, 3), (0, ...)]


def closed(open_, path):
    with open_(path, "np") as f:
        pass
    return f


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    folder = tmp_path_factory.mktemp("errors")
    (folder / "cut.safetensors").write_bytes(b"\xff" * 100)
    write_safetensors(folder / "x.safetensors", {"a": ("F32", [3, 4], 48)}, numpy.arange(12, dtype="f4").tobytes())
    return folder / "x.safetensors"


@pytest.mark.parametrize("what", WRONG)
def test_errors(path, what):
    """An error that safetensors raises is raised as the same kind here, and where it is not of Python, of tensorfs too."""
    with pytest.raises(Exception) as theirs:
        WRONG[what](safetensors.safe_open, path)
    with pytest.raises(theirs.type) as ours:
        WRONG[what](tensorfs.safe_open, path)
    if theirs.type is not TypeError:
        assert isinstance(ours.value, tensorfs.Error) and "\n" not in str(ours.value)
    if what == "no file":
        assert str(ours.value) == str(theirs.value)


@pytest.mark.parametrize("index", INDICES, ids=repr)
def test_wrong_indices(path, index):
    """Programs look at the words."""
    with safetensors.safe_open(path, "np") as theirs, tensorfs.safe_open(path, "np") as ours, tensorfs.safe_open(LLAMA, "np") as model:
        with pytest.raises(safetensors.SafetensorError) as wanted:
            theirs.get_slice("a")[index]
        with pytest.raises(safetensors.SafetensorError) as got:
            ours.get_slice("a")[index]
        assert str(got.value) == str(wanted.value) and isinstance(got.value, tensorfs.Error)
        if index in ("x", None, 1.5, (..., ...)) or index == (0, 0, 0) or index == [0, 1]:  # of what is converted, too
            with pytest.raises(tensorfs.SafetensorError):
                model.get_slice("model.layers.0.mlp.up_proj.weight")[index]


@pytest.mark.parametrize("index", GOOD, ids=repr)
def test_indices(path, index):
    with safetensors.safe_open(path, "np") as theirs, tensorfs.safe_open(path, "np") as ours:
        want, got = theirs.get_slice("a")[index], numpy.asarray(ours.get_slice("a")[index])
        assert (want.shape, want.tobytes()) == (got.shape, got.tobytes())


def test_error_of_both(path):
    """One error is caught by the names of both packages, and goes to another process."""
    with tensorfs.safe_open(path, "np") as f, pytest.raises(KeyError) as raised:
        f.get_tensor("nothing")
    assert tensorfs.SafetensorError is safetensors.SafetensorError
    assert isinstance(raised.value, safetensors.SafetensorError) and isinstance(raised.value, tensorfs.Absent)
    again = pickle.loads(pickle.dumps(raised.value))
    assert type(again) is tensorfs.Absent and str(again) == str(raised.value)
    with pytest.raises(AttributeError, match="no attribute 'SafetensorErr'"):
        tensorfs.SafetensorErr


def test_without_safetensors(path):
    """The package is not needed, and not imported before an error."""
    code = f"""
import sys, tensorfs
f = tensorfs.safe_open({str(path)!r}, "np")
assert "safetensors" not in sys.modules
sys.modules["safetensors"] = None
try:
    f.get_tensor("nothing")
except tensorfs.SafetensorError as e:
    print(type(e).__name__, isinstance(e, KeyError))
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "Absent True\n"


@pytest.mark.parametrize("name", ["x", "x.safetensors", "9f86d081884c7d65", "x.bin.tmp"])
def test_by_content(tmp_path, name):
    """Metadata and the tensors' order are the file's, whatever its name is."""
    header = {"__metadata__": {"k": "v"}, "b": dict(dtype="F32", shape=[1], data_offsets=[0, 4]), "a": dict(dtype="I64", shape=[], data_offsets=[4, 12])}
    text = json.dumps(header).encode()
    (tmp_path / name).write_bytes(len(text).to_bytes(8, "little") + text + bytes(12))
    with safetensors.safe_open(tmp_path / name, "np") as theirs, tensorfs.safe_open(tmp_path / name, "np") as ours:
        assert ours.metadata() == theirs.metadata() == {"k": "v"} and ours.offset_keys() == list(theirs.offset_keys()) == ["b", "a"]
        assert ours.get_tensor_meta("a") == ("I64", [], (4, 12)) and ours.get_tensor_meta("b").data_offsets == (0, 4)


@pytest.mark.skipif(not OWN.is_dir(), reason="the tests of safetensors are fetched for scripts/test programs")
def test_own(tmp_path):
    """The tests of safetensors, with the functions of this package in the place of its own."""
    shutil.copytree(OWN / "bindings/python/tests", tmp_path / "tests")
    here = Path(__file__).parent
    env = os.environ | dict(PYTHONPATH=os.pathsep.join([str(here), str(here.parent)]))
    left_out = [f"--ignore=tests/{name}" for name in LEFT_OUT]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "peer_plugin", *left_out, "--junit-xml", tmp_path / "own.xml", "tests"]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    cases = list(ElementTree.parse(tmp_path / "own.xml").getroot().iter("testcase"))
    wrong = {f"{c.get('classname')}.{c.get('name')}" for c in cases if c.find("failure") is not None or c.find("error") is not None}
    skipped = [skip.get("message", "") for c in cases for skip in c.iter("skipped")]
    assert wrong == FAILS.keys(), done.stdout[-4000:]
    assert [why for why in skipped if not any(known in why for known in SKIPS)] == []
    assert len(cases) - len(skipped) - len(wrong) >= PASS
