"""What notebooks show, and the notebook of docs/examples, which runs from its first cell to its last and is stored without what it printed."""

import importlib.util
import json
import os
import subprocess
import sys

import pytest
from conftest import DATA, LLAMA, ROOT, program

import tensorfs

NOTEBOOK = ROOT / "docs/examples/models.ipynb"


def test_stripped():
    cells = [c for c in json.loads(NOTEBOOK.read_text())["cells"] if c["cell_type"] == "code"]
    assert cells and all(c["outputs"] == [] and c["execution_count"] is None for c in cells)


def test_runs(tmp_path):
    if lacks := [name for name in ("nbconvert", "ipykernel", "matplotlib", "transformers") if not importlib.util.find_spec(name)]:
        pytest.skip(f"without {', '.join(lacks)}: notebooks are run by scripts/test programs")
    command = [sys.executable, "-m", "nbconvert", "--to", "notebook", "--execute", "--output", tmp_path / "done.ipynb", NOTEBOOK]
    env = os.environ | dict(HF_HUB_OFFLINE="1", JUPYTER_RUNTIME_DIR=str(tmp_path), IPYTHONDIR=str(tmp_path), MPLCONFIGDIR=str(tmp_path))
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr[-3000:]
    outputs = [o for c in json.loads((tmp_path / "done.ipynb").read_text())["cells"] for o in c.get("outputs", [])]
    shown = "".join("".join(o.get("text", [])) + "".join(o.get("data", {}).get("text/html", [])) for o in outputs)
    assert "blk.0.attn_q.weight" in shown and "<svg" in shown and "nmse" in shown and "tokens [" in shown
    assert any("image/png" in o.get("data", {}) for o in outputs)


def test_table(llama):
    """A table has the columns of pandas, whatever it is a table of."""
    rows = llama.table()
    assert [row["name"] for row in rows] == list(llama.raw) and {tuple(row) for row in rows} == {tuple(rows[0])}
    assert rows[0] == dict(
        name="layers.0.attention.k.weight", source_name="blk.0.attn_k.weight", dtype="Q8_0", shape=(64, 64), elements=4096, bytes=4352, quant=None, bits=None, group_size=None
    )  # fmt: skip
    assert sum(row["bytes"] for row in rows) == sum(t.nbytes for t in llama.raw.values())
    assert {row["dtype"] for row in llama.table("f16")} == {"F16"} and len(llama.table("hf")) == len(llama.hf)
    assert {(row["bits"], row["group_size"]) for row in tensorfs.open(DATA / "models-mlx/qwen3-mixed").table() if row["quant"] == "affine"} >= {(4, 64)}
    assert [row["name"] for row in tensorfs.open(LLAMA, views=["f32"]).table()] == list(llama.f32)
    with pytest.raises(KeyError, match="no such view"):
        llama.table("nothing")
    if importlib.util.find_spec("pandas"):
        import pandas

        frame = pandas.DataFrame(rows)
        assert frame.groupby("dtype").bytes.sum().sum() == sum(row["bytes"] for row in rows) and frame["shape"][0] == (64, 64)


def test_report(llama, tmp_path):
    """The page of the command, in a frame that cannot reach the notebook's own page."""
    page = tensorfs.report(llama)
    assert page.html == program("report", "-o", "-", LLAMA)
    shown = page._repr_html_()
    assert shown.startswith('<iframe srcdoc="&lt;!DOCTYPE html') and 'sandbox="allow-scripts"' in shown and shown.count("<") == 2
    page.save(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text() == page.html and "characters" in repr(page)
    other = DATA / "gguf/llama-xs.f32.gguf"
    assert tensorfs.report(other, llama).html == program("report", "-o", "-", other, LLAMA)
    base, adapter = DATA / "lora/plain-bf16-f32/base", DATA / "lora/plain-bf16-f32/adapter0"
    with tensorfs.open(base, lora=[adapter]) as tuned:
        assert tensorfs.report(tuned).html == program("report", "-o", "-", f"--lora={adapter}", base) != tensorfs.report(base).html
        with pytest.raises(tensorfs.Invalid, match="same adapters"):
            tensorfs.report(base, tuned)
    for wrong in ("nothing.gguf", "--json", "a\0b"):
        with pytest.raises(tensorfs.Error):
            tensorfs.report(wrong)


def test_offline(llama, monkeypatch):
    """What reads a model again asks servers no more than the model may."""
    asked = []
    monkeypatch.setattr(tensorfs, "_output", lambda *a, options, **how: asked.append(options) or b"{}")
    m = tensorfs.open(LLAMA, offline=True, i2s="rows4")
    tensorfs.stat(m), tensorfs.diff(llama, m), tensorfs.report(m), tensorfs.stat(LLAMA)
    assert [sorted(options)[-2:] for options in asked[:3]] == [["--json", "--offline"], ["--json", "--offline"], ["--offline", "--output=-"]]
    assert all("--i2s=rows4" in options for options in asked[:3]) and asked[3] == ["--json"]
