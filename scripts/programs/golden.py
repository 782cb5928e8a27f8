"""What llama.cpp's converter and mlx-lm make of the models of testdata/architectures: golden.py COMMAND CASE...,
in the environment convert of those that ./setup makes

save CASE CONFIG LIKE   a model of a class of transformers with the numbers of CONFIG and the tokenizer of the case LIKE
random CASE CONFIG LIKE NAMES
                        the same of a class that transformers does not have: NAMES has a line for each tensor, its name and its dimensions,
                        and after them its type if that is not the type of all (F32, F8_E4M3, F8_E8M0, I8, U8, E8M0 as U8, I64 of numbers below the number of experts),
                        or -N if its last N rows are zeros
convert CASE...         expected/CASE.meta.json and CASE.tensors.tsv, by the real converter
hf CASE...              expected/CASE.hf.tsv and CASE.hf.config.json: the directory itself, as it has to come back from a GGUF file
run CASE...             expected/CASE.run.json: tokens of texts, and what follows a prompt, by llama.cpp (scripts/setup has it) on gguf/ by $TENSORFS
new CLASS...            save and convert of classes that have no case yet, with small numbers in place of the defaults of their configuration; names
                        those of which it makes none, and why
mlx CASE...             expected/CASE.mlx.tsv, CASE.mlx.config.json and lines of mlx-run.jsonl, by mlx-lm (in its own environment)

A toy's vocabulary has no name among pre-tokenizers: --pre NAME gives the one that is meant. --raw gives the converter config.json
as it stands, where transformers has a class that renames what the converter asks for. --as CLASS:TYPE gives the class of
the language model as which hf/ has a model of several parts. With --published, models and tables are those of testdata/published, with --vision those of testdata/vision: the file is that of the towers. --loaded takes its tensors as transformers has them in memory, --f32 PATTERN... what its GGUF file has as F32 in another order.
"""

import argparse
import contextlib
import fnmatch
import hashlib
import io
import json
import os
import shutil
import sys
import tempfile
import types
import zlib
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2] / "testdata/architectures"
EXPECTED = ROOT / "expected"
PUBLISHED = ROOT.parent / "published"
VISION = ROOT.parent / "vision"
VENVS = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tensorfs-tests/programs"
CONVERTER = VENVS / "converter"
TOKENIZER = ("tokenizer", "spiece", "sentencepiece", "special_tokens_map", "added_tokens", "vocab", "merges", "chat_template", "tiktoken", "hy.tiktoken", "rwkv_vocab")
# What a config.json says that no GGUF file has.
TRANSIENT = ("torch_dtype", "dtype", "transformers_version", "auto_map", "use_cache", "initializer_range", "*dropout*", "*pdrop", "_name_or_path", "architectures_*")


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def spell(*rows: object) -> str:
    return "\t".join(map(str, rows)) + "\n"


def fill(model, seed: int) -> None:
    """Random weights of few different numbers, which pack well; BF16 and F16 hold them."""
    import torch

    g = torch.Generator().manual_seed(seed)
    for name, p in [*model.named_parameters(), *model.named_buffers()]:
        if not p.is_floating_point() or "inv_freq" in name:
            continue
        near = 1 if "norm" in name.lower() and name.endswith("weight") else 0
        p.data = (near + torch.randint(-16, 17, p.shape, generator=g) / 128).to(p.dtype)
        if model.config.model_type == "chameleon" and p.dim() == 2 and "_norm." in name:  # as the release of 7B has them, and the converter all
            p.data[:] = p.data[:1].clone()
    for name, module in model.named_modules():  # no position has these rows, and no GGUF file
        if name.endswith("position_embeddings") and getattr(module, "padding_idx", None):
            module.weight.data[: module.padding_idx + 1] = 0


def save(directory: Path, config: Path, like: Path, dtype: str) -> None:
    import torch
    import transformers

    said = json.loads(config.read_text())
    with tempfile.TemporaryDirectory() as work:
        shutil.copy(config, Path(work) / "config.json")
        numbers = transformers.AutoConfig.from_pretrained(work)
        kind = getattr(transformers, said["architectures"][0], None)  # None: a release spells it otherwise
        model = kind(numbers) if kind else transformers.AutoModelForCausalLM.from_config(numbers)
    fill(model, zlib.crc32(directory.name.encode()))
    model.to(getattr(torch, dtype)).save_pretrained(directory)
    if directory.parent == ROOT:
        (directory / "config.json").rename(directory / "config.v5.json")
    (directory / "generation_config.json").unlink(missing_ok=True)
    around(directory, said, like)


# Bytes of random codes, of which the last is taken: how many there are, the first, and how far they are apart. 8-bit floats have signs that
# take turns, and are between 0.25 and 4; scales are powers of two below 1.
CODES = {"F8_E4M3": (33, 40, 129, "float8_e4m3fn"), "F8_E8M0": (4, 122, 1, "float8_e8m0fnu"), "I8": (16, 11, 37, "int8"), "U8": (16, 11, 37, "uint8"), "E8M0": (4, 122, 1, "uint8")}


def random(directory: Path, config: Path, like: Path, names: Path, dtype: str) -> None:
    import torch
    from safetensors.torch import save_file

    g = torch.Generator().manual_seed(zlib.crc32(directory.name.encode()))
    tensors = {}
    for line in names.read_text().splitlines():
        name, *shape = line.split()
        kind = shape.pop() if not shape[-1].isdigit() else ""
        zeros, kind = (int(kind), "") if kind.startswith("-") else (0, kind)
        near = 1 if "norm" in name.lower() and name.endswith("weight") else 0
        numbers = [int(n) for n in shape]
        match kind:
            case _ if kind in CODES:
                levels, first, step, view = CODES[kind]
                made = (first + step * torch.randint(0, levels, numbers, generator=g)).to(torch.uint8).view(getattr(torch, view))
            case "I64":
                made = torch.randint(0, json.loads(config.read_text())["n_routed_experts"], numbers, generator=g)
            case _:
                made = (near + torch.randint(-16, 17, numbers, generator=g) / 128).to(torch.float32 if kind else getattr(torch, dtype))
        if zeros:
            made[zeros:] = 0
        tensors[name] = made
    directory.mkdir(exist_ok=True)
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
    if json.loads(config.read_text())["architectures"][0].startswith("MiniMax"):  # whose converter reads the index
        index = dict(metadata={}, weight_map=dict.fromkeys(tensors, "model.safetensors"))
        (directory / "model.safetensors.index.json").write_text(json.dumps(index, indent=1) + "\n")
    around(directory, json.loads(config.read_text()), like)


def around(directory: Path, config: dict, like: Path) -> None:
    """What is beside the weights."""
    (directory / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    for file in like.iterdir():
        if file.name.startswith(TOKENIZER):
            shutil.copy(file, directory)


@cache
def converter():
    """The converter's modules, and its table of names as it is at first: what an architecture adds to it would stay there for later models."""
    sys.path[:0] = [str(CONVERTER), str(CONVERTER / "gguf-py")]
    import convert_hf_to_gguf as program
    from conversion import base

    return program, base, dict(base.gguf.TensorNameMap.block_mappings_cfg)


def converted(directory: Path, pre: str = "", kind: str = "", more: Sequence[str] = (), raw: bool = False):
    """The keys and tensors of the GGUF file that the converter writes of a directory, as the tables have them. The type of the
    file is that of the weights, if no other is given."""
    import logging

    import transformers

    program, base, names = converter()
    base.gguf.TensorNameMap.block_mappings_cfg = dict(names)
    # Its names of a projector's layers go as far as the layers of the tower, and a toy has fewer.
    base.gguf.get_tensor_name_map = lambda arch, n: base.gguf.TensorNameMap(arch, max(n, 8) if arch == base.gguf.MODEL_ARCH.MMPROJ else n)
    # It has no name for the norms of Gemma 3n's convolutions before the layers, and stops there.
    base.gguf.TensorNameMap.block_mappings_cfg[base.gguf.MODEL_TENSOR.A_ENC_CONV1D_NORM] += ("model.audio_tower.subsample_conv_projection.conv_{bid}.norm",)
    from conversion.deepseek import DeepseekV32Model

    def meant(self, tokenizer) -> str:
        return pre or "default"

    for model in {base.TextModel, *base.ModelBase._model_classes[base.ModelType.TEXT].values()}:
        if "get_vocab_base_pre" in vars(model):
            model.get_vocab_base_pre = meant
    base.AutoConfig = None if raw else transformers.AutoConfig  # which it goes on without
    if raw:  # AutoTokenizer asks a class of this kind for it, where transformers does not have the release's own
        transformers.PreTrainedConfig.max_position_embeddings = None
    settings = directory / "tokenizer_config.json"
    said = json.loads(settings.read_text()) if settings.exists() else {}
    if any((directory / k.file).exists() for k in RANKED.values()) and not (directory / "tokenizer.json").exists():
        transformers.AutoTokenizer.from_pretrained = lambda *_, **__: ranked(directory)
    if said.get("tokenizer_class") == "ChatGLMTokenizer":
        transformers.AutoTokenizer.from_pretrained = lambda *_, **__: chatglm(directory)
    from conversion.deci import DeciModel

    # It knows the vocabulary of Llama 3 by its size, which a toy does not have.
    DeciModel.set_vocab = lambda self: self._set_vocab_gpt2()
    if (directory / "hy.tiktoken").exists():  # and <|bos|> by its id in the whole vocabulary of Hunyuan
        base.gguf.GGUFWriter.add_bos_token_id = lambda self, _: self.add_uint32("tokenizer.ggml.bos_token_id", ranked(directory).special_tokens["<|bos|>"])
    # It asks the tokenizer for what transformers 5 does not tell any more.
    DeepseekV32Model.set_vocab = lambda self: self._set_vocab_gpt2()
    weights = {t["dtype"] for t in header(directory)[0].values() if len(t["shape"]) > 1}
    kind = kind or ({"F16": "f16", "F32": "f32"}.get(next(iter(weights)), "bf16") if len(weights) == 1 else "bf16")
    with tempfile.TemporaryDirectory() as work:
        named = Path(work) / directory.name  # its name is a key
        named.mkdir()
        for file in directory.iterdir():
            if file.name != "config.v5.json":
                (named / file.name).symlink_to(file)
        out = Path(work) / "model.gguf"
        sys.argv = ["convert", str(named), "--outfile", str(out), "--outtype", kind, *more]
        logging.disable(logging.WARNING)
        with contextlib.redirect_stdout(sys.stderr), contextlib.redirect_stderr(io.StringIO()) as heard:
            try:
                program.main()
            except SystemExit as e:
                if e.code:
                    raise AssertionError(heard.getvalue()) from e
        return stored(out)


class Ranked(NamedTuple):
    """How the code beside a model makes a tokenizer of tiktoken's: the pre-tokenizer of its pattern, and the special tokens after the ranks."""

    file: str
    pre: str
    special: Callable[[int, dict[int, str]], list[str]]  # by how many ranks there are, and the names in tokenizer_config.json


RANKED = {
    "TikTokenTokenizer": Ranked("tiktoken.model", "kimi-k2", lambda n, names: [names.get(i, f"<|reserved_token_{i}|>") for i in range(n, n + 258)]),
    "HYTokenizer": Ranked("hy.tiktoken", "qwen2", lambda *_: ["<|endoftext|>", "<|startoftext|>", "<|bos|>", "<|eos|>", "<|pad|>", *(f"<|extra_{n}|>" for n in range(205))]),
}  # fmt: skip


def ranked(directory: Path):
    """A tokenizer of tiktoken's as the code beside the model makes it (tokenization_kimi.py, tokenization_hy.py)."""
    import tiktoken
    from tiktoken.load import load_tiktoken_bpe

    said = json.loads((directory / "tokenizer_config.json").read_text())
    kind = RANKED[said["tokenizer_class"]]
    names = {int(n): token["content"] for n, token in said.get("added_tokens_decoder", {}).items()}
    ranks = load_tiktoken_bpe(str(directory / kind.file))
    special = {name: n for n, name in enumerate(kind.special(len(ranks), names), len(ranks))}
    table = json.loads((ROOT.parents[1] / "formats/tokenizer/pretokenizers.json").read_text())
    row = next(r for r in table["rows"] if kind.pre in r["pre"])
    split = [table["expressions"].get(p.removeprefix("@"), p) for p in row["split"]]
    model = tiktoken.Encoding(name=kind.file, pat_str="|".join(split), mergeable_ranks=ranks, special_tokens=special)
    vocabulary = {**{token.decode("latin-1"): n for token, n in ranks.items()}, **special}
    return types.SimpleNamespace(
        model=model, mergeable_ranks=ranks, special_tokens=special, vocab_size=model.n_vocab, eos_id=special.get(said.get("eos_token")), get_vocab=lambda: vocabulary
    )


def chatglm(directory: Path):
    """A tokenizer as the code beside ChatGLM 3 makes it (tokenization_chatglm.py): some tokens after SentencePiece's."""
    import sentencepiece

    pieces = sentencepiece.SentencePieceProcessor(model_file=str(directory / "tokenizer.model"))
    special = ["[MASK]", "[gMASK]", "[sMASK]", "sop", "eop", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>"]
    named = dict(enumerate(special, pieces.vocab_size()))

    def text(n: int) -> str:
        unnamed = n in (pieces.bos_id(), pieces.eos_id(), pieces.unk_id()) or n >= pieces.vocab_size()
        return named.get(n) or ("" if unnamed else pieces.id_to_piece(n))

    vocabulary = {text(n): n for n in range(pieces.vocab_size() + len(special))}
    return types.SimpleNamespace(tokenizer=types.SimpleNamespace(sp_model=pieces), get_vocab=lambda: vocabulary, _convert_id_to_token=text)


def stored(file: Path):
    """The keys and tensors of a GGUF file, as the tables have them."""
    sys.path[:0] = [str(CONVERTER / "gguf-py")]
    import gguf

    reader = gguf.GGUFReader(file)
    keys = {name: key_of(gguf, field) for name, field in reader.fields.items() if not name.startswith("GGUF.")}
    rows = {t.name: (t.tensor_type.name, "x".join(str(int(n)) for n in t.shape), int(t.n_bytes), digest(t.data.tobytes())) for t in reader.tensors}
    return keys, rows


def key_of(gguf, field) -> dict:
    kind = field.types[-1].name
    if field.types[0] == gguf.GGUFValueType.ARRAY:
        kind = "array:" + kind
    return dict(type=kind, value=field.contents())


def header(directory: Path):
    """The tensors of a directory's files by name, and where each begins."""
    found, place = {}, {}
    for file in sorted(directory.glob("*.safetensors")):
        with file.open("rb") as f:
            size = int.from_bytes(f.read(8), "little")
            for name, t in json.loads(f.read(size)).items():
                if name != "__metadata__":
                    found[name], place[name] = t, (file, 8 + size + t["data_offsets"][0])
    return found, place


def convert(directory: Path, to: Path, pre: str, more: Sequence[str], raw: bool) -> None:
    case, table = directory.name, "tensors.tsv"
    keys, rows = converted(directory, pre, more=more, raw=raw)
    if "--mmproj" in more:
        case, table = f"{case}.mmproj", "tsv"
    lines = ",\n".join(f"{dump(k)}: {dump(v)}" for k, v in keys.items())
    (to / f"{case}.meta.json").write_text("{\n" + lines + "\n}\n")
    text = spell("name", "type", "ne", "bytes", "sha256") + "".join(spell(name, *row) for name, row in rows.items())
    (to / f"{case}.{table}").write_text(text)


# Numbers of a toy, by the ends of the names of fields. Others stay as the class has them.
SMALL = {
    "num_hidden_layers": 2, "n_layer": 2, "num_layers": 2, "hidden_size": 64, "n_embd": 64, "d_model": 64, "intermediate_size": 96, "ffn_hidden_size": 96,
    "num_attention_heads": 4, "n_head": 4, "num_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "v_head_dim": 16, "qk_nope_head_dim": 16, "qk_rope_head_dim": 16,
    "kv_lora_rank": 32, "q_lora_rank": 48, "num_experts": 4, "n_routed_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
    "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1, "max_position_embeddings": 512, "sliding_window": 64, "num_nextn_predict_layers": 0,
}  # fmt: skip


def small(config: dict, vocabulary: int) -> dict:
    """A configuration with small numbers; layers that differ are as many as have one of each kind."""
    kinds = config.get("layer_types")
    layers = max(2, max(kinds.index(kind) + 1 for kind in set(kinds))) if kinds else 2
    out = {}
    for name, value in config.items():
        if isinstance(value, dict):
            value = small(value, vocabulary) if name.endswith("config") else value
        elif isinstance(value, list) and kinds and len(value) == len(kinds):
            value = value[:layers]
        elif isinstance(value, int) and not isinstance(value, bool):
            end = max((n for n in SMALL if name == n or name.endswith("_" + n)), key=len, default="")
            value = min(value, layers if "layer" in end and SMALL[end] == 2 else SMALL[end]) if end else value
            value = vocabulary if name.endswith("vocab_size") else min(value, vocabulary - 1) if name.endswith("token_id") else value
        out[name] = value
    return out


def new(name: str, like: str = "olmo2") -> None:
    import transformers

    transformers.utils.logging.disable_progress_bar()
    kind = getattr(transformers, name, None)
    if kind is None or not getattr(kind, "config_class", None):
        print(f"{name}: transformers {transformers.__version__} has no such class")
        return
    case = kind.config_class.model_type.replace("_", "-")
    if (ROOT / case).exists():
        print(f"{name}: there is a case {case}")
        return
    vocabulary = json.loads((ROOT / like / "config.json").read_text())["vocab_size"]
    config = small(kind.config_class().to_dict(), vocabulary) | dict(architectures=[name], dtype="bfloat16")
    try:
        with tempfile.TemporaryDirectory() as work:
            (Path(work) / "config.json").write_text(json.dumps(config))
            save(ROOT / case, Path(work) / "config.json", ROOT / like, "bfloat16")
        convert(ROOT / case, EXPECTED, "", [], False)
    except Exception as e:  # of any program, about any field
        shutil.rmtree(ROOT / case, ignore_errors=True)
        reason = (str(e).strip().splitlines() or [""])[-1]
        print(f"{name}: nothing is made of it: {type(e).__name__}: {reason[:300]}")
        return
    print(f"{name}: testdata/architectures/{case}, expected/{case}.*")


def as_f32(dtype: str, data: bytes) -> bytes:
    import numpy as np

    if dtype == "BF16":
        return (np.frombuffer(data, "<u2").astype("<u4") << 16).tobytes()
    return np.frombuffer(data, {"F16": "<f2", "F32": "<f4"}[dtype]).astype("<f4").tobytes()


def hf(case: str, kind: str, single: list[str], cut: str, drop: list[str], in_memory: bool) -> None:
    """What the GGUF file has as F32 stays so: vectors, tensors that it has as they are, and those that are called so. Of names that begin with
    cut it is left out; what drop matches no GGUF file has."""
    directory = ROOT / case
    config = json.loads((directory / "config.json").read_text())
    tensors = weights_of(directory)
    if kind:
        name, _, model_type = kind.partition(":")
        parts = config.pop("text_config", None) or config.get("thinker_config", {}).get("text_config", {})  # {}: it is the whole
        config = {k: v for k, v in config.items() if not any(fnmatch.fnmatch(k, p) for p in BESIDE)}
        config |= parts | dict(architectures=[name], model_type=model_type)
        tensors = loaded(directory) if in_memory else language_model(tensors, config["hidden_size"])
    if config.pop("attention_projection_layout", "") == "fused_qkv":
        tensors = apart(tensors, config)
        config.pop("quantization_config", None)
    if config.pop("expert_dtype", "") == "fp4":
        tensors = unpacked(tensors)
        del config["quantization_config"]
        config["num_nextn_predict_layers"] = 0
    rows = [line.split("\t") for line in (EXPECTED / f"{case}.tensors.tsv").read_text().splitlines()]
    wide = {row[4] for row in rows if row[1] == "F32"}
    text = spell("name", "dtype", "shape", "sha256")
    kept = {name.removeprefix(cut): t for name, t in tensors.items() if not any(fnmatch.fnmatch(name, p) for p in drop)}
    for name, (dtype, shape, data) in sorted(kept.items()):
        if name.endswith("A_log") or dtype == "I64" or name.endswith("_a_layernorm.weight") and config.get("apply_mla_qkv_lora_rescale"):
            pass  # which comes back as it was
        elif len(shape) < 2 or digest(as_f32(dtype, data)) in wide or any(fnmatch.fnmatch(name, p) for p in single):
            dtype, data = "F32", as_f32(dtype, data)
        text += spell(name, dtype, "x".join(map(str, shape)), digest(data))
    (EXPECTED / f"{case}.hf.tsv").write_text(text)
    said = {k: v for k, v in config.items() if not any(fnmatch.fnmatch(k, p) for p in TRANSIENT)}
    (EXPECTED / f"{case}.hf.config.json").write_text(json.dumps(said, indent=1) + "\n")


def weights_of(directory: Path) -> dict[str, tuple[str, list[int], bytes]]:
    """The tensors of a directory: their types, shapes and bytes."""
    tensors, place = header(directory)
    found = {}
    for name, t in tensors.items():
        file, begin = place[name]
        with file.open("rb") as f:
            f.seek(begin)
            found[name] = t["dtype"], t["shape"], f.read(t["data_offsets"][1] - t["data_offsets"][0])
    return found


def unpacked(tensors: dict) -> dict:
    """What DeepSeek V4's GGUF file has of its packed tensors, as F16: 8-bit floats as Q8_0, and FP4 as MXFP4."""
    import numpy as np
    import torch

    _, base, _ = converter()
    kinds, found = base.gguf.GGMLQuantizationType, dict(tensors)
    for name, (dtype, shape, data) in tensors.items():
        scale = found.pop(name.removesuffix(".weight") + ".scale", None) if name.endswith(".weight") else None
        if scale is None:
            continue
        codes = torch.from_numpy(np.frombuffer(data, "u1").reshape(shape).copy())
        scales = torch.from_numpy(np.frombuffer(scale[2], "u1").reshape(scale[1]).copy())
        if dtype == "I8":
            packed, kind = base.ModelBase.repack_mxfp4_blocks(codes, scales), kinds.MXFP4
        else:
            wide = torch.exp2(scales.float() - 127).repeat_interleave(128, 0)[: shape[0]].repeat_interleave(128, 1)[:, : shape[1]]
            packed, kind = base.gguf.quants.quantize((codes.view(torch.float8_e4m3fn).float() * wide).numpy(), kinds.Q8_0), kinds.Q8_0
        numbers = base.gguf.quants.dequantize(np.asarray(packed), kind).astype("<f2")
        found[name] = "F16", list(numbers.shape), numbers.tobytes()
    return found


def apart(tensors: dict, config: dict) -> dict:
    """MiMo V2.5's 8-bit floats as BF16, and q, k and v apart, as the converter has them."""
    import numpy as np
    import torch

    converter()
    from conversion.mimo import MimoV2Model

    def tensor(name: str):
        dtype, shape, data = tensors[name]
        return torch.frombuffer(bytearray(data), dtype=torch.float8_e4m3fn if dtype == "F8_E4M3" else torch.float32).reshape(shape)

    found = {name: t for name, t in tensors.items() if not name.endswith("_scale_inv") and not fnmatch.fnmatch(name, "speech_embeddings.*")}
    for name in [n for n in tensors if n + "_scale_inv" in tensors]:
        codes, scales = tensor(name), tensor(name + "_scale_inv")
        if name.endswith("qkv_proj.weight"):
            window = config["hybrid_layer_pattern"][int(name.split(".")[2])]
            heads, groups = config["num_attention_heads"], config["swa_num_key_value_heads" if window else "num_key_value_heads"]
            rows = [heads * config["head_dim"], groups * config["head_dim"], groups * config["v_head_dim"]]
            numbers = MimoV2Model._tp_aware_qkv_dequant(codes, scales, heads, groups, config["head_dim"], config["v_head_dim"])
            parts = dict(zip(("q_proj", "k_proj", "v_proj"), numbers.split(rows), strict=True))
            del found[name]
        else:
            numbers = codes.float() * scales.repeat_interleave(128, 0)[: codes.shape[0]].repeat_interleave(128, 1)[:, : codes.shape[1]]
            parts = {name.split(".")[-2]: numbers}
        for part, rows in parts.items():
            data = rows.to(torch.bfloat16).contiguous()
            found[name.replace(name.split(".")[-2], part)] = "BF16", list(data.shape), data.view(torch.int16).numpy().astype(np.int16).tobytes()
    return found


BESIDE = ("*_config", "image_*", "video_*", "vision_*", "audio_*", "boi_*", "eoi_*", "boa_*", "eoa_*", "ignore_index", "media_*", "use_unified_*")  # and what is about other parts of a model
# Names of what is beside a language model, and what its own begin with there.
TOWERS = ("*visual.*", "*vision_*", "*audio_*", "*talker.*", "*token2wav.*", "*code2wav.*", "*projector*", "*embed_vision*", "*embed_audio*", "*merger.*")
BEFORE = ("language_model.", "thinker.")


def language_model(tensors: dict, width: int) -> dict:
    """The tensors of the language model alone by the names of its own class; that of Qwen has one for each expert."""
    import numpy as np

    found = {}
    for name, (dtype, shape, data) in tensors.items():
        if any(fnmatch.fnmatch(name, p) for p in TOWERS):
            continue
        for prefix in BEFORE:
            name = name.replace(prefix, "")
        before, _, part = name.rpartition(".")
        if len(shape) != 3 or not before.endswith(".mlp.experts"):
            found[name] = dtype, shape, data
            continue
        stack = np.frombuffer(data, "<u2").reshape(shape)
        if stack.shape[1 if part == "gate_up_proj" else 2] == width:
            stack = stack.swapaxes(1, 2)
        for e, expert in enumerate(stack):
            half = len(expert) // 2
            parts = dict(gate_proj=expert[:half], up_proj=expert[half:]) if part == "gate_up_proj" else {part: expert}
            for p, rows in parts.items():
                found[f"{before}.{e}.{p}.weight"] = dtype, rows.shape, rows.tobytes()
    return found


def loaded(directory: Path) -> dict:
    """The tensors of the language model of several parts as transformers has them, whose class for text has no other names."""
    import torch
    from transformers import AutoModelForImageTextToText

    model = AutoModelForImageTextToText.from_pretrained(directory, dtype=torch.bfloat16, ignore_mismatched_sizes=True)
    model.tie_weights()
    named = {k.replace(".language_model.", "."): t for k, t in model.state_dict().items() if ".language_model." in k or k.startswith("lm_head.")}
    wide = {torch.bfloat16: "BF16", torch.float32: "F32"}
    return {k: (wide[t.dtype], list(t.shape), t.contiguous().view(torch.uint8).numpy().tobytes()) for k, t in named.items()}


TEXTS = EXPECTED / "dream.run.json"  # the same for all


def run(case: str) -> None:
    """Each question in a process of its own: llama.cpp ends with the first model that it does not like."""
    import subprocess

    said = json.loads(TEXTS.read_text())
    out = dict(later=True, prompt_text=said["prompt_text"], texts=said["texts"])
    with tempfile.TemporaryDirectory() as work:
        model = Path(work) / "model.gguf"
        with model.open("wb") as f:
            subprocess.run([os.environ["TENSORFS"], "cat", ROOT / case, "gguf/model.gguf"], stdout=f, check=True)

        def ask(**job: object) -> dict:
            node = Path(os.environ.get("LLAMA", ROOT.parents[1] / "scripts/llama"))
            done = subprocess.run(["node", "run.mjs"], cwd=node, input=json.dumps(dict(model=str(model), mmap=True, **job)), capture_output=True, text=True)
            return json.loads(done.stdout) if done.stdout.strip() else dict(ok=False, error=f"llama.cpp ended with {done.returncode}")

        tokens = ask(texts=said["texts"], vocabOnly=True)
        keys, _ = stored(model)
        number = {name: keys[f"tokenizer.ggml.{name}_token_id"]["value"] for name in ("bos", "eos") if f"tokenizer.ggml.{name}_token_id" in keys}
        arch = keys["general.architecture"]["value"]
        states = f"{arch}.pooling_type" in keys or arch in ("bert", "llama-embed", "t5encoder")
        answer = ask(prompt=said["prompt_text"], embed=states)
        llama = dict(ok=answer["ok"], arch=arch, vocab=len(keys["tokenizer.ggml.tokens"]["value"]), **number)
        llama |= {k: tokens[k] for k in ("tokens", "tokensSpecial") if k in tokens}
        llama |= {k: answer[k] for k in ("prompt", "greedy", "top", "embedding", "error") if k in answer}
    out["llama"] = llama
    if (ROOT / case / "tokenizer.json").exists():
        from tokenizers import Tokenizer

        library = Tokenizer.from_file(str(ROOT / case / "tokenizer.json"))
        out["hf_tokens"] = [library.encode(text, add_special_tokens=False).ids for text in said["texts"]]
    (EXPECTED / f"{case}.run.json").write_text(dump(out) + "\n")
    print(case, "embedding" if "embedding" in llama else llama.get("greedy"), llama.get("error", ""), flush=True)


def mlx(case: str) -> None:
    import mlx.core as mx
    import numpy as np
    from mlx_lm.utils import load_model, save_model

    mx.set_default_device(mx.cpu)
    directory = ROOT / case
    with tempfile.TemporaryDirectory() as work:
        model, config = load_model(directory, lazy=True)
        save_model(work, model)
        text = spell("name", "dtype", "shape", "sha256")
        for name, (dtype, shape, data) in sorted(weights_of(Path(work)).items()):
            text += spell(name, dtype, "x".join(map(str, shape)), digest(data))
    (EXPECTED / f"{case}.mlx.tsv").write_text(text)
    said = json.loads((directory / "config.json").read_text())
    (EXPECTED / f"{case}.mlx.config.json").write_text(json.dumps(said, indent=1) + "\n")
    model, _ = load_model(directory)
    model.set_dtype(mx.float32)
    prompt = [20, 40, 85, 9, 77, 130]
    ids, top = list(prompt), []
    for _ in range(6):
        logits = np.array(model(mx.array([ids]))[0, -1].astype(mx.float32))
        top = top or [[int(i), float(logits[i])] for i in np.argsort(-logits)[:5]]
        ids.append(int(logits.argmax()))
    lines = [line for line in (EXPECTED / "mlx-run.jsonl").read_text().splitlines() if json.loads(line)["case"] != case]
    lines.append(json.dumps(dict(case=case, prompt=prompt, greedy=ids[len(prompt) :], top=top)))
    (EXPECTED / "mlx-run.jsonl").write_text("\n".join(lines) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("save", "random", "new", "convert", "hf", "run", "mlx"))
    parser.add_argument("case", nargs="*")
    parser.add_argument("--pre", default="")
    parser.add_argument("--no-mtp", action="store_true", help="of convert: the directory has no layers that predict further tokens, whatever config.json says")
    parser.add_argument("--raw", action="store_true", help="of convert: the fields of config.json, and not those of transformers' class")
    parser.add_argument("--as", dest="kind", default="")
    parser.add_argument("--f32", nargs="*", default=[])
    parser.add_argument("--dtype", default="bfloat16", help="of save and random")
    parser.add_argument("--published", action="store_true", help="of save, random and convert")
    parser.add_argument("--vision", action="store_true", help="of random and convert")
    parser.add_argument("--mmproj", action="store_true", help="of convert: the file of the towers, CASE.mmproj.meta.json and CASE.mmproj.tsv")
    parser.add_argument("--loaded", action="store_true", help="of hf, with --as: the tensors as transformers has them in memory")
    parser.add_argument("--cut", default="", metavar="PREFIX", help="of hf: the class that comes back has no such beginning of names")
    parser.add_argument("--drop", action="append", default=[], metavar="PATTERN", help="of hf: tensors that GGUF files do not have")
    o = parser.parse_args()
    root, to = (PUBLISHED, PUBLISHED) if o.published else (VISION, VISION / "expected") if o.vision else (ROOT, EXPECTED)
    if o.command in ("save", "random"):
        case, config, like, *names = o.case
        make = save if o.command == "save" else random
        make(root / case, Path(config), next(p / like for p in (root, ROOT) if (p / like).exists()), *map(Path, names), o.dtype)
        return 0
    for case in o.case:
        if o.command == "new":
            new(case)
        elif o.command == "convert":
            convert(root / case, to, o.pre, ["--no-mtp"] * o.no_mtp + ["--mmproj"] * (o.mmproj or o.vision), o.raw)
        elif o.command == "hf":
            hf(case, o.kind, o.f32, o.cut, o.drop, o.loaded)
        else:
            dict(run=run, mlx=mlx)[o.command](case)
    return 0


if __name__ == "__main__":
    sys.exit(main())
