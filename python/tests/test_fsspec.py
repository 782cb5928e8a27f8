"""The tree of a model through fsspec."""

import io

import pytest
from conftest import LLAMA

import tensorfs

fsspec = pytest.importorskip("fsspec")


@pytest.fixture
def fs():
    from tensorfs.fsspec import TensorFS

    return TensorFS(skip_instance_cache=True)


def test_tree(fs, exported):
    tree = exported(LLAMA)
    top = f"tensorfs://{LLAMA}"
    assert f"{LLAMA}!/hf" in fs.ls(top, detail=False) and fs.isdir(top) and fs.isdir(top + "!/hf") and fs.isfile(top + "!/config.json")
    assert {x["name"].rpartition("/")[2] for x in fs.ls(top + "!/hf")} == {p.name for p in (tree / "hf").iterdir()}
    want = (tree / "gguf/model.gguf").read_bytes()
    path = top + "!/gguf/model.gguf"
    assert fs.size(path) == len(want) and fs.cat_file(path) == want and fs.cat_file(path, 5, 99) == want[5:99] and fs.cat_file(path, -9) == want[-9:]
    assert fs.cat_ranges([path] * 3, [0, 7, 100], [4, 9, 200]) == [want[:4], want[7:9], want[100:200]]
    with fs.open(path) as f:
        f.seek(1000)
        assert f.read(50) == want[1000:1050]
        into = bytearray(10)
        assert f.readinto(into) == 10 and bytes(into) == want[1050:1060]
        assert io.BufferedReader(f).read() == want[1060:]
    assert [p for p in fs.find(top + "!/hf") if p.endswith("model.safetensors")] == [f"{LLAMA}!/hf/model.safetensors"]
    assert not fs.exists(top + "!/nothing") and fs.exists(top)
    with pytest.raises(FileNotFoundError):
        fs.info(top + "!/hf/nothing")


def test_wrong_kinds(fs):
    """What is no file, what is below one, and ranges that begin before it, as fsspec's local file system has them."""
    top = f"tensorfs://{LLAMA}!"
    with pytest.raises(IsADirectoryError):
        fs.cat_file(top + "/hf")
    with pytest.raises(IsADirectoryError):
        fs.open(top + "/hf")
    for path in ("/config.json/x", "/hf/config.json/x/y"):
        with pytest.raises(OSError):
            fs.info(top + path)
        assert not fs.exists(top + path)
    with pytest.raises(NotADirectoryError):
        fs.ls(top + "/config.json/x")
    want = fs.cat_file(top + "/config.json")
    for first, end in ((-(10**9), 5), (0, 10**9), (5, 3), (-4, -2), (10**9, None), (None, -1)):
        assert fs.cat_file(top + "/config.json", first, end) == want[first:end]


def test_file_of_a_closed_model(fs):
    path = f"tensorfs://{LLAMA}!/gguf/model.gguf"
    with fs.open(path, block_size=16) as f:
        assert f.read(4) == b"GGUF"
        for m in fs._models.values():
            m.close()
        with pytest.raises(tensorfs.Error, match="closed"):
            f.seek(5000)
            f.read(100)


def test_read_only(fs):
    for call in (lambda: fs.open(f"{LLAMA}!/x", "wb"), lambda: fs.rm(f"{LLAMA}!/README"), lambda: fs.mkdir(f"{LLAMA}!/new"), lambda: fs.pipe_file(f"{LLAMA}!/x", b"")):
        with pytest.raises(OSError, match="read"):
            call()


def test_protocol():
    """The entry point of an installed package, or of this one where it is registered by hand."""
    fsspec.register_implementation("tensorfs", "tensorfs.fsspec.TensorFS", clobber=True)
    with fsspec.open(f"tensorfs://{LLAMA}!/config.json", "r") as f:
        assert f.read() == tensorfs.open(LLAMA).files["config.json"].read().decode()
