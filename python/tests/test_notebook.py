"""The notebook of docs/examples runs from its first cell to its last, and stands in the repository without what it printed."""

import importlib.util
import json
import os
import subprocess
import sys

import pytest
from conftest import ROOT

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
