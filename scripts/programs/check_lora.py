"""PEFT: the model that it merges of a base and an adapter is the one that tensorfs shows with --lora, but for the last bits of sums that a BLAS adds up
in another order. The models are toys that are made here; the adapters are what PEFT saves."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import common
import torch
from common import Case
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load, load_file, save_file
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, MixtralConfig, MixtralForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM

PROGRAM = sys.argv[1]
TENSORFS = os.environ["TENSORFS"]
TYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
SIZES = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=128)
BASES = {
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**SIZES, tie_word_embeddings=False)),
    "tied": lambda: LlamaForCausalLM(LlamaConfig(**SIZES, tie_word_embeddings=True)),
    "mixtral": lambda: MixtralForCausalLM(MixtralConfig(**SIZES, num_local_experts=4)),
    # Twice the rows of an expert are as many as its columns.
    "square": lambda: Qwen3MoeForCausalLM(Qwen3MoeConfig(**SIZES, head_dim=16, moe_intermediate_size=32, num_experts=4, num_experts_per_tok=2)),
}
LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
ADAPTERS: dict[str, tuple[str, dict]] = {
    "plain": ("llama", dict(target_modules=LINEAR)),
    "all-linear": ("llama", dict(target_modules="all-linear")),
    "rslora": ("llama", dict(target_modules=LINEAR, use_rslora=True)),
    "dora": ("llama", dict(target_modules=LINEAR, use_dora=True)),
    "patterns": ("llama", dict(target_modules=LINEAR, rank_pattern={"layers.0.*q_proj": 4, "down_proj": 2}, alpha_pattern={"down_proj": 32})),
    "some-layers": ("llama", dict(target_modules=LINEAR, layers_to_transform=[1])),
    "head": ("llama", dict(target_modules=["q_proj", "lm_head"])),
    "saved": ("llama", dict(target_modules=["q_proj"], modules_to_save=["lm_head", "norm"])),
    "embedding": ("llama", dict(target_modules=["q_proj", "embed_tokens"])),
    "embedding-dora": ("llama", dict(target_modules=["embed_tokens"], use_dora=True)),
    "experts": ("mixtral", dict(target_modules=["q_proj"], target_parameters=["experts.down_proj", "experts.gate_up_proj"])),
    "experts-up": ("mixtral", dict(target_modules=["q_proj"], target_parameters=["experts.gate_up_proj"])),
    "experts-square": ("square", dict(target_modules=["q_proj"], target_parameters=["mlp.experts.gate_up_proj"])),
    "router": ("square", dict(target_modules=["q_proj"], target_parameters=["mlp.gate.weight"])),
    "copies": ("llama", dict(target_modules=["q_proj"], modules_to_save=["lm_head", "embed_tokens"])),
    "copies-lora": ("llama", dict(target_modules=["q_proj", "lm_head", "embed_tokens"])),
    "copies-tied": ("tied", dict(target_modules=["q_proj"])),
    "copies-tied-ensured": ("tied", dict(target_modules=["q_proj"], modules_to_save=["embed_tokens"], ensure_weight_tying=True)),
    "copies-tokens": ("llama", dict(target_modules=["q_proj"], trainable_token_indices=[3, 1, 127])),
    "copies-tokens-tied": ("tied", dict(target_modules=["q_proj"], trainable_token_indices=[3, 1, 127])),
    "tokens": ("llama", dict(target_modules=["q_proj"], trainable_token_indices={"embed_tokens": [5, 2], "lm_head": [5, 7]})),
    "compiled": ("llama", dict(target_modules=LINEAR)),
    "distributed": ("llama", dict(target_modules=LINEAR)),
}
# What trainers make of the names; PEFT itself finds no module for them.
WRAPPED = {"compiled": "base_model.model._orig_mod.", "distributed": "module.base_model.model."}
# The part of the elements that may have another last bit: ties of 16 bits, and what PEFT itself rounds to the type of the base. Of F32 any may, because
# each of its sums is rounded.
ALIKE = {"bf16": 0.001, "f16": 0.002, "f32": 1}
ROUNDED = ("embedding", "embedding-dora", "experts", "experts-up", "experts-square", "router", "copies-lora")


def trained(model: torch.nn.Module) -> None:
    """As if it had been trained: B, which begins as zeros, too."""
    torch.manual_seed(1)
    for name, p in model.named_parameters():
        if p.requires_grad:
            scale = 0.1 if "magnitude" in name else 0.02 if "lora" in name else 0.01
            p.data += (scale * torch.randn_like(p, dtype=torch.float32)).to(p.dtype)


def made(where: Path, name: str, dtype: torch.dtype) -> tuple[Path, Path, dict[str, torch.Tensor]]:
    """A base and an adapter on the disk, and what PEFT merges of them, as the directory that it saves."""
    base, settings = ADAPTERS[name]
    torch.manual_seed(0)
    model = BASES[base]().to(dtype)
    model.save_pretrained(where / "base")
    adapted = get_peft_model(model, LoraConfig(r=8, lora_alpha=16, task_type="CAUSAL_LM", **settings))
    trained(adapted)
    adapted.save_pretrained(where / "adapter", save_embedding_layers=name.startswith("copies"))
    again = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(where / "base", dtype=dtype), where / "adapter")
    again.merge_and_unload().save_pretrained(where / "merged")
    if prefix := WRAPPED.get(name):
        weights = where / "adapter/adapter_model.safetensors"
        save_file({k.replace("base_model.model.", prefix): x for k, x in load_file(weights).items()}, weights)
    return where / "base", where / "adapter", load((where / "merged/model.safetensors").read_bytes())


def shown(base: Path, adapter: Path, path: str) -> bytes:
    done = subprocess.run([TENSORFS, "cat", base, path, f"--lora={adapter}"], capture_output=True)
    assert not done.returncode, done.stderr.decode()
    return done.stdout


def compare(got: dict[str, torch.Tensor], want: dict[str, torch.Tensor], base: dict[str, torch.Tensor], name: str, dtype: str) -> None:
    assert set(got) == set(want), f"other tensors: {sorted(set(got) ^ set(want))[:4]}"
    allowed, unequal, changed = ALIKE[dtype], 0, 0
    for tensor, w in want.items():
        g = got[tensor]
        assert g.dtype == w.dtype and g.shape == w.shape, f"{tensor} is {g.dtype} {tuple(g.shape)}, not {w.dtype} {tuple(w.shape)}"
        if not torch.equal(w, base[tensor]):
            changed += w.numel()
            unequal += int((g != w).sum())
        else:
            assert torch.equal(g, w), f"{tensor} is changed, and PEFT leaves it"
        # Rounded to the type at every step, or once: units of the last place of the largest number.
        off = float((g.double() - w.double()).abs().max())
        most = float(w.double().abs().max())
        assert off <= 2 * torch.finfo(w.dtype).eps * max(most, 1e-30), f"{tensor} is off by {off:.3g} of {most:.3g}"
    assert changed, "the adapter changes nothing"
    if name in ROUNDED:
        allowed = max(allowed, 0.4)
    assert unequal <= allowed * changed, f"{unequal} of {changed} elements are others: {unequal / changed:.2%}"


def logits(directory: Path) -> torch.Tensor:
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
    with torch.no_grad():
        return model(torch.tensor([common.ids_of_logits(SIZES["vocab_size"])])).logits


def loads(base: Path, adapter: Path, where: Path) -> None:
    """transformers loads hf/ and computes what it computes with the merged model."""
    subprocess.run([TENSORFS, "export", base, where / "tree", "hf/*", f"--lora={adapter}"], check=True, capture_output=True)
    common.near(logits(where / "tree/hf"), logits(where / "merged"), 0.02, "the logits")


def main() -> None:
    only = [part for part in os.environ.get("ONLY", "").split("/") if part]
    for name in ADAPTERS:
        for dtype, of in TYPES.items():
            if ["lora-" + name, dtype][: len(only)] != only[:2]:
                continue
            with tempfile.TemporaryDirectory() as work:
                where = Path(work)
                base, adapter, want = made(where, name, of)
                stored = load((base / "model.safetensors").read_bytes())

                def numbers() -> None:
                    compare(load(shown(base, adapter, "hf/model.safetensors")), want, stored, name, dtype)

                checks: dict[str, Callable[[], None]] = dict(load=numbers, logits=lambda: loads(base, adapter, where))
                common.run(Case("lora-" + name, dtype, "peft", where, where), PROGRAM, checks, base)


if __name__ == "__main__":
    main()
