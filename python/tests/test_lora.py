"""Adapters that are applied when tensors are read."""

import pickle

import pytest
from conftest import DATA, program

import tensorfs

CASE = DATA / "lora/plain-bf16-f32"
NAME = "layers.0.attention.q.weight"


def test_lora(tmp_path):
    base, adapter = CASE / "base", CASE / "adapter0"
    program("export", base, tmp_path / "tree", f"f32/{NAME}", f"--lora={adapter}:0.5")
    want = (tmp_path / "tree/f32" / NAME).read_bytes()
    m = tensorfs.open(base, lora=(a for a in [f"{adapter}:0.5"]))
    assert bytes(m.f32[NAME].memoryview()) == want
    assert bytes(pickle.loads(pickle.dumps(m)).f32[NAME].memoryview()) == want
    assert bytes(tensorfs.open(base, lora=[]).f32[NAME].memoryview()) != want
    assert bytes(tensorfs.open(base, lora=[adapter]).f32[NAME].memoryview()) != want
    assert tensorfs.stat(m, NAME) != tensorfs.stat(base, NAME)
    assert not tensorfs.diff(base, m)["equal"]
    with pytest.raises(tensorfs.Invalid):
        tensorfs.diff(m, base)
    with pytest.raises(tensorfs.Error, match="no adapter"):
        tensorfs.open(base, lora=[base])


def test_recipe(tmp_path):
    adapter, recipe = CASE / "adapter0", tmp_path / "recipe.yml"
    recipe.write_text(f"merge_method: linear\nmodels:\n- {{model: {CASE}/base, parameters: {{weight: 1}}}}\n- {{model: {CASE}/base+{adapter}, parameters: {{weight: 3}}}}\n")
    for n, lora in enumerate(([], [f"{adapter}:0.5"])):
        program("export", recipe, tmp_path / f"tree{n}", f"f32/{NAME}", *(f"--lora={a}" for a in lora))
        want = (tmp_path / f"tree{n}/f32" / NAME).read_bytes()
        m = tensorfs.open(recipe, lora=lora)
        assert bytes(m.f32[NAME].memoryview()) == want
        assert bytes(tensorfs.open(CASE / "base").f32[NAME].memoryview()) != want
    assert tensorfs.diff(recipe, recipe)["equal"]
    with pytest.raises(tensorfs.Error, match="statistics"):
        recipe.write_text("merge_method: karcher\nmodels: [{model: a}]")
        tensorfs.open(recipe)
