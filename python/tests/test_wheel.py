"""The wheel: what is in it, and that it installs and runs. TENSORFS_WHEEL names one, which scripts/test-python builds."""

import base64
import hashlib
import os
import re
import shutil
import subprocess
import venv
import zipfile
from pathlib import Path

import pytest
from conftest import LLAMA

wheel = pytest.mark.skipif("TENSORFS_WHEEL" not in os.environ, reason="no wheel was built: scripts/test-python --wheel")
pytestmark = wheel


@pytest.fixture(scope="module")
def path() -> Path:
    return Path(os.environ["TENSORFS_WHEEL"])


def test_record(path):
    with zipfile.ZipFile(path) as z:
        (record,) = (n for n in z.namelist() if n.endswith("/RECORD"))
        lines = [line.split(",") for line in z.read(record).decode().splitlines()]
        assert sorted(line[0] for line in lines) == sorted(z.namelist())
        for name, digest, size in lines:
            if name != record:
                data = z.read(name)
                assert digest == "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode() and int(size) == len(data)
        assert {i.date_time for i in z.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_entry_points(path):
    """What fsspec and vLLM find is there."""
    with zipfile.ZipFile(path) as z:
        (points,) = (z.read(n).decode() for n in z.namelist() if n.endswith("/entry_points.txt"))
        assert re.findall(r"^\[(.*)\]$", points, re.M) == ["fsspec.specs", "vllm.general_plugins"]
        for module, name in re.findall(r"^tensorfs = (\S+):(\S+)$", points, re.M):
            assert re.search(rf"^(class|def) {name}\b", z.read(module.replace(".", "/") + ".py").decode(), re.M)


def test_symbols(path, tmp_path):
    """No symbol is newer than the tag of the wheel promises."""
    if not shutil.which("objdump"):
        pytest.skip("there is no objdump")
    with zipfile.ZipFile(path) as z:
        z.extract("tensorfs/native/libtensorfs.so.1", tmp_path)
    said = subprocess.run(["objdump", "-T", tmp_path / "tensorfs/native/libtensorfs.so.1"], capture_output=True, text=True, check=True).stdout
    versions = {tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_([0-9.]+)", said)}
    assert versions and max(versions) <= tuple(map(int, re.search(r"manylinux_(\d+)_(\d+)", path.name).groups()))
    exported = set(re.findall(r" g +D[FO] +\S+\t\S+ +\S+ +(?:\S+ +)?(\w+)$", said, re.M))
    assert not {name for name in exported if not name.startswith("tensorfs_")}, exported


def test_installs(path, tmp_path):
    place = tmp_path / "a path with spaces"
    venv.create(place, with_pip=True)
    python = place / "bin/python"
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "TENSORFS"))}

    def run(*command: object) -> subprocess.CompletedProcess:
        return subprocess.run([*map(str, command)], capture_output=True, text=True, env=env, cwd=tmp_path)

    done = run(python, "-m", "pip", "install", "--no-index", "--quiet", path)
    assert done.returncode == 0, done.stderr
    code = f"import tensorfs; m = tensorfs.open({str(LLAMA)!r}); t = m.raw['token_embedding.weight']; print(t.origin, t.nbytes, tensorfs.stat(m, t.name)[0]['count'])"
    assert run(python, "-c", code).stdout.split()[0] == "model", run(python, "-c", code).stderr
    assert run(place / "bin/tensorfs", "--version").stdout.startswith("tensorfs 0.") and run(python, "-m", "tensorfs", "--version").returncode == 0
    other = tmp_path / path.name.replace("x86_64", "s390x").replace("aarch64", "s390x")
    shutil.copy(path, other)
    done = run(python, "-m", "pip", "install", "--no-index", "--quiet", other)
    assert done.returncode != 0 and "not a supported wheel" in done.stderr
