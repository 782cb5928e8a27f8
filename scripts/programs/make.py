"""Makes the models of these tests: make.py v4|v5|q8|mlx DIRECTORY [NAME...]

v4   with transformers 4, config.json as published until 2025: torch_dtype, rope_theta, rope_scaling
v5   with transformers 5 from v4, config.json as it writes it: dtype, rope_parameters
q8   what a model of v4 is after Q8_0: each weight quantised and back, as F16
mlx  with mlx-lm from v4 and v5: as it is, and in 4 bits
"""

import json
import re
import shutil
import sys
import zlib
from pathlib import Path

from recipes import RECIPES, Recipe


def read(path: Path) -> dict:
    return json.loads(path.read_text()) if path.exists() else {}


def write(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2) + "\n")


def fill(model, seed: int) -> None:
    """Random weights that BF16 and F16 both hold exactly, so that conversions can be compared bit for bit."""
    import torch

    g = torch.Generator().manual_seed(seed)
    for name, p in model.named_parameters():
        if "norm" in name.lower() and name.endswith("weight"):
            near = 0 if "gemma" in model.config.model_type else 1
            p.data = near + torch.randint(-16, 17, p.shape, generator=g) / 64
        else:
            p.data = (torch.randn(p.shape, generator=g) * 128).round().clamp(-255, 255) / 1024


def as_mxfp4(tensors: dict, seed: int) -> dict:
    """The experts of gpt-oss as it is published: blocks of 32 codes of four bits, and their exponents."""
    import torch

    g = torch.Generator().manual_seed(seed)
    out = {}
    for name, t in tensors.items():
        if not name.endswith(("gate_up_proj", "down_proj")):
            out[name] = t
            continue
        experts, columns, rows = t.shape
        out[name + "_blocks"] = torch.randint(0, 256, (experts, rows, columns // 32, 16), generator=g).to(torch.uint8)
        out[name + "_scales"] = torch.randint(121, 124, (experts, rows, columns // 32), generator=g).to(torch.uint8)
    return out


def sentence_files(out: Path, recipe: Recipe, hidden: int, longest: int) -> None:
    """What makes sentence-transformers pool as the author did."""
    kinds = [("0", "", "Transformer"), ("1", "1_Pooling", "Pooling"), ("2", "2_Normalize", "Normalize")]
    write(
        out / "modules.json",
        [
            dict(idx=int(n), name=n, path=path, type=f"sentence_transformers.models.{kind}")
            for n, path, kind in kinds
        ],
    )
    modes = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken")
    chosen = {"cls": "cls_token", "mean": "mean_tokens"}.get(recipe.pooling, recipe.pooling)
    pooling = {f"pooling_mode_{m}": m == chosen for m in modes}
    write(out / "1_Pooling/config.json", dict(word_embedding_dimension=hidden, **pooling))
    write(out / "sentence_bert_config.json", dict(max_seq_length=longest, do_lower_case=False))


def v4(out: Path, name: str, recipe: Recipe) -> None:
    import torch
    import transformers
    from safetensors.torch import save_file

    seed = zlib.crc32(name.encode())
    vocabulary = recipe.vocabulary()
    ids = {k: vocabulary.token_to_id(t) for k, t in recipe.tokens.items() if k[:3] in ("bos", "eos", "pad")}
    known = {f"{k}_id": i for k, i in ids.items()}
    sizes = dict(bos_token_id=None, eos_token_id=None, pad_token_id=None) | known | recipe.sizes
    config = getattr(transformers, recipe.config)(vocab_size=vocabulary.get_vocab_size(), **sizes)
    model = getattr(transformers, recipe.model)(config)
    fill(model, seed)
    decoder = bool(recipe.ends)
    model.to(torch.bfloat16 if decoder else torch.float32).save_pretrained(out)
    tensors = {k: t.contiguous() for k, t in model.state_dict().items() if not (config.tie_word_embeddings and k == "lm_head.weight")}
    if config.model_type == "gpt_oss":
        tensors = as_mxfp4(tensors, seed)
    bare = {k.removeprefix("model."): t for k, t in tensors.items()} if recipe.bare else tensors
    save_file(bare, out / "model.safetensors", metadata={"format": "pt"})

    stored = read(out / "config.json")
    stored["torch_dtype"] = stored.pop("dtype")
    if config.model_type == "gpt_oss":
        plain = ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]
        stored["quantization_config"] = dict(quant_method="mxfp4", modules_to_not_convert=plain)
    write(out / "config.json", stored)

    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=vocabulary, model_max_length=config.max_position_embeddings, **recipe.tokens
    )
    if recipe.chat:
        fast.chat_template = recipe.chat
    fast.save_pretrained(out)
    settings = read(out / "tokenizer_config.json") | dict(tokenizer_class=recipe.tokenizer)
    if decoder:
        settings["model_input_names"] = ["input_ids", "attention_mask"]
    else:
        settings["model_input_names"] = ["input_ids", "token_type_ids", "attention_mask"]
        settings["do_lower_case"] = True
    write(out / "tokenizer_config.json", settings)

    (out / "generation_config.json").unlink(missing_ok=True)
    if decoder:
        ends = [vocabulary.token_to_id(t) for t in recipe.ends]
        known["eos_token_id"] = ends if len(ends) > 1 else ends[0]
        write(out / "generation_config.json", known | recipe.sampling)
    if recipe.pooling:
        sentence_files(out, recipe, config.hidden_size, config.max_position_embeddings)
    if recipe.bare:  # for mlx-lm, which knows no other names
        named = out.parents[2] / "reference/hf" / name
        shutil.copytree(out, named, dirs_exist_ok=True)
        save_file(tensors, named / "model.safetensors", metadata={"format": "pt"})


def v5(out: Path, source: Path, recipe: Recipe) -> None:
    import transformers

    if recipe.pooling:
        from sentence_transformers import SentenceTransformer

        SentenceTransformer(str(source), device="cpu").save(str(out), create_model_card=False)
        return
    model = getattr(transformers, recipe.model).from_pretrained(source, dtype="auto")
    model.save_pretrained(out)
    if model.config.model_type == "gpt_oss":
        # transformers 5.23 writes these experts decoded, under the names of the encoded ones. The file of
        # tensors stays what it was, and config.json is as written.
        shutil.copy(source / "model.safetensors", out)
        write(out / "config.json", read(out / "config.json") | {k: v for k, v in read(source / "config.json").items() if k == "quantization_config"})
    transformers.AutoTokenizer.from_pretrained(source).save_pretrained(out)


def q8(out: Path, source: Path) -> None:
    """The weights that GGUF has as Q8_0: all with rows and columns but routers and the positions of BERT."""
    import torch
    from safetensors.torch import load_file, save_file

    kept = ("mlp.gate.", "mlp.router.", "position_embeddings", "token_type_embeddings", "_blocks", "_scales")
    tensors = load_file(source / "model.safetensors")
    shutil.copytree(source, out, dirs_exist_ok=True)
    for name, t in list(tensors.items()):
        if name.endswith("_blocks"):  # of gpt-oss: the experts are Q8_0 as well, and no longer packed
            dense = as_q8_0(from_mxfp4(t, tensors.pop(name.replace("_blocks", "_scales"))))
            tensors[name.removesuffix("_blocks")] = dense.transpose(1, 2).contiguous()
            del tensors[name]
        elif t.ndim < 2 or name.endswith("_bias") or any(part in name for part in kept):
            if name in tensors:
                tensors[name] = t.to(torch.float32)
        else:
            tensors[name] = as_q8_0(t.float())
    save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})
    stored = read(out / "config.json")
    if stored.pop("quantization_config", None):
        write(out / "config.json", stored)
        named = out.parents[1] / "q8_0-mlx" / out.name
        shutil.copytree(out, named, dirs_exist_ok=True)
        save_file(experts_apart(tensors), named / "model.safetensors", metadata={"format": "pt"})


def experts_apart(tensors: dict) -> dict:
    """Plain experts of gpt-oss under the names of mlx-lm, which reads no others: gate and up are one in transformers."""
    apart = {}
    for name, t in tensors.items():
        name, bias = name.removesuffix("_bias"), name.endswith("_bias")
        if not name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            apart[name + "_bias" * bias] = t
            continue
        rows = t if bias else t.transpose(1, 2)
        parts = dict(gate_proj=rows[:, 0::2], up_proj=rows[:, 1::2]) if "gate_up" in name else dict(down_proj=rows)
        for part, value in parts.items():
            apart[f"{name.rpartition('.')[0]}.{part}.{'bias' if bias else 'weight'}"] = value.contiguous()
    return apart


def as_q8_0(t):
    """Numbers as Q8_0 has them: codes of eight bits, and a scale in F16 for each 32."""
    import numpy as np
    import torch

    x = t.numpy().reshape(-1, 32)
    d = np.abs(x).max(axis=1, keepdims=True) / np.float32(127)
    scaled = x * np.divide(np.float32(1), d, out=np.zeros_like(d), where=d != 0)
    codes = np.trunc(scaled + np.copysign(np.float32(0.5), scaled))  # half away from zero, as roundf
    return torch.from_numpy((codes * d.astype(np.float16).astype(np.float32)).reshape(t.shape)).to(torch.float16)


def from_mxfp4(blocks, scales):
    """Numbers of blocks as gpt-oss stores them: two codes in a byte, the low half first."""
    import torch

    values = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
    codes = torch.stack([blocks & 15, blocks >> 4], -1).flatten(-2).long()
    return (values[codes] * torch.exp2(scales.float() - 127).unsqueeze(-1)).flatten(-2)


def mlx(out: Path, source: Path, bits: int | None) -> None:
    from mlx_lm import convert

    shutil.rmtree(out, ignore_errors=True)
    try:
        convert(str(source), str(out), quantize=bits is not None, q_bits=bits, q_group_size=32)
    except (TypeError, KeyError, ValueError) as e:  # of transformers 5's config.json, mlx-lm reads some kinds only
        shutil.rmtree(out, ignore_errors=True)
        why = f"mlx-lm does not convert it: {e}".splitlines()[0]
        print(f"  {source}: {why}")
        out.with_name(out.name + ".absent").write_text(why)


def unpacked(out: Path, source: Path, packed: Path) -> None:
    """The model as it is after MLX's four bits, with the names and the types of the original, as F16."""
    import mlx.core as mx

    tensors, codes = mx.load(str(source / "model.safetensors")), mx.load(str(packed / "model.safetensors"))
    settings = read(packed / "config.json")["quantization"]

    def of(module: str, n: int | None) -> mx.array | None:
        scales = codes.get(module + ".scales")
        if scales is None or scales.dtype == mx.uint8:  # plain, or gpt-oss' own four bits
            return None
        how = settings.get(module) or settings
        group = dict(group_size=how["group_size"], bits=how["bits"])
        parts = [codes[f"{module}.{p}"] for p in ("weight", "scales", "biases")]
        w, s, b = parts if n is None else [p[n] for p in parts]
        return mx.dequantize(w, s.astype(mx.float32), b.astype(mx.float32), **group).astype(mx.float16)

    for name in tensors:
        module, n = name.removesuffix(".weight"), None
        if expert := re.fullmatch(r"(.*)\.experts\.(\d+)\.(\w+)\.weight", name):
            module, n = f"{expert[1]}.switch_mlp.{expert[3]}", int(expert[2])
        plain = of(module, n)
        if plain is not None:
            tensors[name] = plain
    shutil.copytree(source, out, dirs_exist_ok=True)
    mx.save_safetensors(str(out / "model.safetensors"), tensors, metadata={"format": "pt"})


def main() -> None:
    what, root, names = sys.argv[1], Path(sys.argv[2]), sys.argv[3:] or list(RECIPES)
    for name in names:
        recipe = RECIPES[name]
        if what == "mlx" and not recipe.mlx:
            continue
        print(f"  {what}: {name}", flush=True)
        if what == "v4":
            v4(root / "v4/hf" / name, name, recipe)
        elif what == "v5":
            v5(root / "v5/hf" / name, root / "v4/hf" / name, recipe)
        elif what == "q8":
            q8(root / "reference/q8_0" / name, root / ("reference/hf" if recipe.bare else "v4/hf") / name)
        else:
            for form in ("v4", "v5"):
                source = root / form / "hf" / name
                mlx(root / form / "mlx" / name, source, None)
                mlx(root / form / "mlx-4bit" / name, source, 4)
            packed = root / "v4/mlx-4bit" / name
            if packed.exists():
                unpacked(root / "reference/mlx-4bit" / name, root / "v4/hf" / name, packed)


if __name__ == "__main__":
    main()
