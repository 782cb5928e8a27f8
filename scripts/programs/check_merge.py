"""mergekit: what it writes for a recipe is what a mount of the recipe shows, bit for bit where docs/merges.md promises that, and otherwise as near as
is said there. The models are toys that are made here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import common
import torch
import yaml
from common import Case
from mergekit.config import MergeConfiguration
from mergekit.merge import run_merge
from mergekit.options import MergeOptions
from safetensors.torch import load, load_file
from transformers import LlamaConfig, LlamaForCausalLM

PROGRAM = sys.argv[1]
TENSORFS = os.environ["TENSORFS"]
LAYERS = 4
TYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
# The part of the elements that may have another last bit: slerp adds up norms in another order, and ties keeps any of
# the differences that are equal at its cut, where mergekit itself differs between machines.
OTHERWISE = {"slerp": {"bf16": 0.001, "f16": 0.001, "f32": 0.6}, "ties": {"bf16": 0.01, "f16": 0.01, "f32": 0.001}}


def make(where: Path, dtype: torch.dtype) -> list[str]:
    """Four models, of which all differ a little from the first. The last one has no output of its own."""
    config = LlamaConfig(
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=128,
        tie_word_embeddings=False,
    )
    names = []
    for i in range(4):
        config.tie_word_embeddings = i == 3
        torch.manual_seed(0)
        model = LlamaForCausalLM(config)
        torch.manual_seed(100 + i)
        for p in model.parameters():
            p.data += i * 0.01 * torch.randn_like(p)
        names.append(str(where / f"model-{i}"))
        model.to(dtype).save_pretrained(names[-1])
    return names


def recipes(models: list[str], dtype: str) -> Iterator[tuple[str, dict]]:
    a, b, c, tied = models
    each = dict(dtype=dtype)
    mlp = [dict(filter="mlp", value=[0.5, 0.2, 0.7]), dict(value=0.4)]
    yield "linear", each | dict(merge_method="linear", models=[weighed(a, 0.3), weighed(b, [0.1, 0.9]), weighed(c, mlp)])
    yield "linear-raw", each | dict(merge_method="linear", models=[weighed(a, 0.3), weighed(b, -0.2)], parameters=dict(normalize=False))
    yield "linear-out", dict(merge_method="linear", models=[weighed(a, 0.3), weighed(b, "0.7")], dtype="float32", out_dtype="bfloat16")
    t = [dict(filter="self_attn", value=[0, 0.5, 0.3, 0.7, 1]), dict(filter="mlp", value=[1, 0.5, 0.7, 0.3, 0]), dict(value=0.5)]
    yield "slerp", each | dict(merge_method="slerp", base_model=a, models=[dict(model=a), dict(model=b)], parameters=dict(t=t))
    sources = [dict(model=m, layer_range=[0, LAYERS]) for m in (a, b)]
    yield "slerp-slices", each | dict(merge_method="slerp", base_model=a, slices=[dict(sources=sources)], parameters=dict(t=[0, 1]))
    tasks = [weighed(b, 0.7), weighed(c, 0.4)]
    yield "task", each | dict(merge_method="task_arithmetic", base_model=a, models=tasks)
    yield "task-normalized", each | dict(merge_method="task_arithmetic", base_model=a, models=tasks, parameters={"lambda": 0.8, "normalize": True})
    dense = [dict(model=a), weighed(b, 0.5, density=0.5), weighed(c, [0.3, 0.7], density=[1, 0.3])]
    yield "ties", each | dict(merge_method="ties", base_model=a, models=dense, parameters={"lambda": 0.9})
    scale = [dict(filter="o_proj", value=0.5), dict(filter="down_proj", value=0.25), dict(value=1.0)]
    upper = dict(model=b, layer_range=[1, LAYERS], parameters=dict(scale=scale))
    yield "passthrough", each | dict(merge_method="passthrough", slices=[dict(sources=[dict(model=a, layer_range=[0, 3])]), dict(sources=[upper])])
    halves = [dict(sources=[dict(model=m, layer_range=[0, 2])]) for m in (a, c)]
    yield "passthrough-as-stored", dict(merge_method="passthrough", slices=halves)
    # As cards have them: a model without an output of its own, names as mergekit writes them, parameters of other methods.
    reference = dict(model=dict(path=tied))
    yield "linear-tied-first", each | dict(merge_method="linear", models=[weighed(reference, 0.3), weighed(b, 0.4)])
    yield "linear-tied-last", each | dict(merge_method="linear", models=[weighed(b, 0.4), weighed(reference, [dict(filter="lm_head", value=0.9), dict(value=0.1)])])
    yield "task-tied", each | dict(merge_method="task_arithmetic", base_model=reference, models=tasks)
    yield "slerp-tied", each | dict(merge_method="slerp", base_model=a, models=[dict(model=reference), dict(model=a)], parameters=dict(t=0.4))
    yield "ties-tied", each | dict(merge_method="ties", base_model=reference, models=[weighed(b, 1.0, density=1.0), weighed(c, 0.5, density=1.0)])
    yield "passthrough-tied", each | dict(merge_method="passthrough", slices=[dict(sources=[dict(model=m, layer_range=[0, 2])]) for m in (reference, a)])
    unused = dict(int8_mask=True, embed_slerp=True, normalize=True, gamma=[0.1, 0.2])
    yield "linear-unused", each | dict(name="mine", merge_method="linear", models=[weighed(a, 0.3, density=0.5), weighed(b, 0.4)], parameters=unused)
    yield "slerp-unused", each | dict(merge_method="slerp", base_model=a, models=[dict(model=a), weighed(b, 1)], parameters=unused | dict(t=0.3), out_path="x")
    yield "passthrough-unused", each | dict(merge_method="passthrough", models=[weighed(c, 2)], parameters=unused)
    yield "linear-base", each | dict(merge_method="linear", base_model=c, models=[dict(model=a), weighed(b, 0.4)], parameters=dict(weight=0.5))


def weighed(model: object, weight: object, **more: object) -> dict:
    return dict(model=model, parameters=dict(weight=weight, **more))


def check(where: Path, name: str, kind: str, recipe: dict) -> None:
    text, out, seen = where / f"{name}.yml", where / name, where / "mounted"
    if name.endswith("-unused"):
        text.write_text(json.dumps(recipe, indent="\t"))
    else:
        text.write_text(yaml.safe_dump(recipe, sort_keys=False))
    run_merge(MergeConfiguration.model_validate(recipe), str(out), MergeOptions(copy_tokenizer=False))
    want: dict[str, torch.Tensor] = {}
    for file in out.glob("*.safetensors"):
        want |= load_file(file)
    subprocess.run([TENSORFS, "mount", text, seen], check=True)
    try:
        got = load((seen / "hf/model.safetensors").read_bytes())  # not mapped, so that it can be unmounted
        config = json.loads((seen / "hf/config.json").read_text())
    finally:
        subprocess.run([TENSORFS, "umount", seen], check=True)
    common.same(sorted(got), sorted(want), "tensors")
    stored = json.loads((out / "config.json").read_text())
    common.same(config["num_hidden_layers"], stored["num_hidden_layers"], "num_hidden_layers")
    common.same(config["torch_dtype"], stored.get("dtype") or stored["torch_dtype"], "torch_dtype")
    unequal = numbers = 0
    for key, tensor in want.items():
        common.same((got[key].dtype, got[key].shape), (tensor.dtype, tensor.shape), key)
        unequal += int((got[key] != tensor).sum())
        numbers += tensor.numel()
    allowed = OTHERWISE.get(recipe["merge_method"], {}).get(kind, 0)
    assert unequal <= allowed * numbers, f"{unequal} of {numbers} numbers differ"


def main() -> None:
    torch.set_num_threads(1)
    only = [part for part in os.environ.get("ONLY", "").split("/") if part]
    for kind, dtype in TYPES.items():
        with tempfile.TemporaryDirectory() as directory:
            where = Path(directory)
            for name, recipe in recipes(make(where, dtype), str(dtype).removeprefix("torch.")):
                if [name, "merge", kind, PROGRAM][: len(only)] != only:
                    continue
                case = Case(name, "merge", kind, where, where)
                common.run(case, PROGRAM, {"merge": lambda n=name, r=recipe: check(where, n, kind, r)}, where)


main()
