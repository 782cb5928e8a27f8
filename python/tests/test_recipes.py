"""The recipes of docs/python.md for transformers, run as they stand there."""

import os
import re
import subprocess
import sys

import pytest
from conftest import DATA, LLAMA, ROOT

import tensorfs

torch = pytest.importorskip("torch", reason="transformers is tested by scripts/test programs")
pytest.importorskip("transformers")

PAGE = (ROOT / "docs/python.md").read_text()
(WITHOUT,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)
(MOUNTED,) = set(re.findall(r"`(AutoModel\w+\.from_pretrained\(.*?\))`", PAGE))
TIED = DATA / "architectures/smollm3"
IDS = torch.tensor([[1, 5, 9, 12, 7]])


def model_of(code: str, m: tensorfs.Model):
    space = dict(tensorfs=tensorfs, m=m)
    exec(code, space)
    return space["model"].eval()


@pytest.fixture
def mounted(tmp_path):
    if sys.platform != "linux" or not os.access("/dev/fuse", os.W_OK):
        pytest.skip("there is no usable /dev/fuse")
    program = os.environ["TENSORFS_PROGRAM"]

    def at(model):
        subprocess.run([program, "mount", model, tmp_path / "m"], check=True, capture_output=True)

    yield at
    if os.path.ismount(tmp_path / "m"):  # its weights may be mapped still
        subprocess.run([program, "umount", "--lazy", tmp_path / "m"], check=True)


@pytest.mark.parametrize("model", [LLAMA, TIED], ids=["llama", "tied"])
def test_with_and_without_a_mount(model, mounted, tmp_path, monkeypatch):
    m = tensorfs.open(model)
    mapped = model_of(WITHOUT, m)
    mounted(model)
    monkeypatch.chdir(tmp_path)
    loaded = model_of("from transformers import AutoModelForCausalLM\nmodel = " + MOUNTED, m)
    got, want = mapped.state_dict(), loaded.state_dict()
    assert got.keys() == want.keys()
    for name in want:  # from_pretrained brings all to the type that config.json names
        assert torch.equal(got[name].to(want[name].dtype), want[name]), name
    buffers = dict(loaded.named_buffers())
    assert all(torch.equal(b, buffers[name]) for name, b in mapped.named_buffers())
    with torch.no_grad():
        assert mapped.float()(IDS).logits.isfinite().all()
