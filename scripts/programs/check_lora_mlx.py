"""mlx-lm: the model that it fuses of a base and an adapter of its own is the one that tensorfs shows with --lora. The bases are testdata's,
the adapters what mlx-lm's trainer saves. With the name of a directory, it writes the cases of testdata/lora/mlx there instead."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import mlx.core as mx
import mlx.nn as nn
from common import Case, run
from mlx.utils import tree_flatten, tree_unflatten
from mlx_lm.tuner.utils import linear_to_lora_layers, load_adapters
from mlx_lm.utils import dequantize_model, load_model, quantize_model, save_config, save_model

LORA = Path(__file__).resolve().parents[2] / "testdata/lora"
BASES = {"llama": LORA / "plain-bf16-f32/base", "mixtral": LORA / "moe-nested/base"}
# The base, the kind of adapter, and the modules: in the last layer by their names in it, elsewhere by the whole names.
ADAPTERS: dict[str, tuple[str, str, list[str] | None]] = {
    "lora": ("llama", "lora", ["self_attn.q_proj", "mlp.down_proj", "model.embed_tokens", "lm_head"]),
    "dora": ("llama", "dora", ["self_attn.k_proj", "mlp.up_proj", "model.embed_tokens"]),
    "full": ("llama", "full", None),
    "experts": ("mixtral", "lora", ["self_attn.v_proj", "block_sparse_moe.switch_mlp.gate_proj", "block_sparse_moe.switch_mlp.down_proj"]),
    "default": ("llama", "lora", None),
}
GOLDEN = ("lora", "dora", "full", "experts")
TYPES = {"f32": mx.float32, "bf16": mx.bfloat16}


def train(model: nn.Module, where: Path, kind: str, keys: list[str] | None) -> None:
    """Saves the adapter as mlx_lm.lora does, with random numbers where training would have changed them."""
    parameters = dict(rank=4, dropout=0.0, scale=2.5)
    if keys is not None:
        parameters["keys"] = keys
    model.freeze()
    if kind == "full":
        for name in ("input_layernorm", "self_attn"):
            model.layers[-1][name].unfreeze()
    else:
        linear_to_lora_layers(model, 1, parameters, use_dora=kind == "dora")
    trained = {}
    for i, (name, w) in enumerate(sorted(tree_flatten(model.trainable_parameters()))):
        change = mx.random.normal(w.shape, key=mx.random.key(i)) * 0.05
        trained[name] = (w * (1 + change) if name.endswith(".m") else w + change).astype(w.dtype)
    where.mkdir(parents=True)
    mx.save_safetensors(str(where / "adapters.safetensors"), trained)
    config = dict(model="acme/base", fine_tune_type=kind, num_layers=1, batch_size=4, seed=0)
    if kind != "full":
        config["lora_parameters"] = parameters
    save_config(config, where / "adapter_config.json")


def fused(base: Path, adapter: Path, dtype: mx.Dtype | None, dequantize: bool = False) -> dict[str, mx.array]:
    """What mlx_lm.fuse makes, by Hugging Face's names."""
    model, _ = load_model(base)
    if dtype:
        model.set_dtype(dtype)
    load_adapters(model, str(adapter))
    model.update_modules(tree_unflatten([(n, m.fuse(dequantize=dequantize)) for n, m in model.named_modules() if hasattr(m, "fuse")]))
    if dequantize:
        model = dequantize_model(model)
    tensors = {}
    for name, w in tree_flatten(model.parameters()):
        before, stack, part = name.partition("switch_mlp.")
        for e in range(w.shape[0] if stack else 0):
            letter = {"gate_proj": "w1", "down_proj": "w2", "up_proj": "w3"}[part.split(".")[0]]
            tensors[f"{before}experts.{e}.{letter}.weight"] = w[e]
        if not stack:
            tensors[name] = w
    return tensors


def shown(base: Path, adapter: Path, path: str, where: Path) -> dict[str, mx.array]:
    done = subprocess.run([os.environ["TENSORFS"], "cat", base, path, f"--lora={adapter}"], capture_output=True)
    assert not done.returncode, done.stderr.decode()
    (where / "shown.safetensors").write_bytes(done.stdout)
    return mx.load(str(where / "shown.safetensors"))


def compare(got: dict[str, mx.array], want: dict[str, mx.array], dtype: mx.Dtype, ulps: float) -> None:
    assert set(got) == set(want), f"other tensors: {sorted(set(got) ^ set(want))[:4]}"
    for name, w in want.items():
        g = got[name]
        assert g.shape == w.shape, f"{name} is {g.shape}, not {w.shape}"
        g, w = g.astype(mx.float32), w.astype(mx.float32)
        off, most = float(mx.abs(g - w).max()), float(mx.abs(w).max())
        assert off <= ulps * float(mx.finfo(dtype).eps) * most, f"{name} is off by {off:.3g} of {most:.3g}"


def typed(base: Path, where: Path, dtype: mx.Dtype) -> Path:
    """The base with numbers of another type."""
    where.mkdir()
    config = json.loads((base / "config.json").read_text())
    config["torch_dtype"] = {mx.float32: "float32", mx.bfloat16: "bfloat16"}[dtype]
    (where / "config.json").write_text(json.dumps(config))
    stored = {name: w.astype(dtype) for name, w in mx.load(str(base / "model.safetensors")).items()}
    mx.save_safetensors(str(where / "model.safetensors"), stored, dict(format="pt"))
    return where


def quantised(base: Path, where: Path) -> Path:
    model, config = load_model(base)
    model, config = quantize_model(model, config, group_size=32, bits=4)
    save_model(where, model, donate_model=False)
    save_config(config, where / "config.json")
    return where


def write_golden(to: Path) -> None:
    for name in GOLDEN:
        of, kind, keys = ADAPTERS[name]
        model, _ = load_model(BASES[of])
        model.set_dtype(mx.float32)
        train(model, to / name / "adapter", kind, keys)
        before = {k: w.astype(mx.float32) for k, w in mx.load(str(BASES[of] / "model.safetensors")).items()}
        after = fused(BASES[of], to / name / "adapter", mx.float32)
        changed = {k: w for k, w in after.items() if not mx.array_equal(w, before[k])}
        mx.save_safetensors(str(to / name / "expected-f32.safetensors"), changed)


def main() -> None:
    mx.set_default_device(mx.cpu)
    if "TENSORFS" not in os.environ:
        return write_golden(Path(sys.argv[1]))
    only = [part for part in os.environ.get("ONLY", "").split("/") if part]
    for name, (of, kind, keys) in ADAPTERS.items():
        for form in (*TYPES, "4bit"):
            if ["lora-mlx-" + name, form][: len(only)] != only[:2] or form == "4bit" and kind == "full":
                continue
            with tempfile.TemporaryDirectory() as work:
                where = Path(work)
                base = typed(BASES[of], where / "base", TYPES.get(form, mx.bfloat16))
                if form == "4bit":
                    base = quantised(base, where / "quantised")
                    if kind == "dora":  # mlx-lm gives a quantised embedding's factors the width of its codes
                        keys = [k for k in keys or () if k != "model.embed_tokens"]
                train(load_model(base)[0], where / "adapter", kind, keys)

                def numbers() -> None:
                    want = fused(base, where / "adapter", None, dequantize=form == "4bit")
                    # Of 16 bits mlx-lm rounds the product and each step after it, tensorfs the result.
                    got = shown(base, where / "adapter", "hf/model.safetensors", where)
                    compare(got, want, TYPES.get(form, mx.bfloat16), 2 if form == "f32" else 4)

                checks: dict[str, Callable[[], None]] = dict(load=numbers)
                run(Case("lora-mlx-" + name, form, "mlx-lm", where, where), "mlx-lm", checks, base)


if __name__ == "__main__":
    main()
