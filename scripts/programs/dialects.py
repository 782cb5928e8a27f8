"""Models as Ollama's own converter wrote them until May 2026, of directories in testdata: dialects.py CASE..., after ./setup,
writes testdata/dialect/CASE.gguf.gz"""

import gzip
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

TESTDATA = Path(__file__).resolve().parents[2] / "testdata"
CONVERT = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tensorfs-tests/programs/ollama-convert/convert"
PREPROCESSOR = dict(image_mean=[0.5] * 3, image_std=[0.5] * 3, size=dict(shortest_edge=65536, longest_edge=16777216), patch_size=4, temporal_patch_size=2, merge_size=2)


def text_outside(config: dict) -> None:
    """It reads these outside of text_config alone, where published models do not need them: it knows theirs by the number of layers."""
    for name in ("num_attention_heads", "num_key_value_heads", "max_position_embeddings"):
        config[name] = config["text_config"][name]


def one_width(config: dict) -> None:
    """It reads a number, which is that of every layer."""
    config["text_config"]["intermediate_size"] = config["text_config"]["intermediate_size"][0]


# What has to be another than in the directory, for the converter of release 0.24.
EDITS: dict[str, Callable[[dict], None]] = {"gemma3-vl": text_outside, "gemma3n": one_width}
# Where the directories are, by the names of the cases.
PLACES = {
    "whole-gguf": ("gemma3", "gpt-oss"),
    "published": ("gemma4-vision", "ministral3-vl", "qwen36-moe-published"),
    "architectures": (
        "deepseek-ocr gemma3-vl gemma3n gemma4 gemma4-moe gemma4-shared glm-ocr glm4moelite laguna lfm2 lfm2-vl llama4 ministral3 mistral3 "
        "nemotron_h nemotron_h-moe olmo3 qwen2.5-vl qwen3-next qwen3-vl qwen3-vl-moe qwen3.5 qwen3.5-moe"
    ).split(),
}
CASES = {name: TESTDATA / place / name for place, names in PLACES.items() for name in names}


# Sizes of a toy that llama.cpp has as constants: the field, and llama.cpp's value.
CONSTANTS = {"gemma3n": dict(hidden_size_per_layer_input=256, laurel_rank=64)}


def directory(case: str, work: Path) -> Path:
    """The directory of a case, of the sizes that llama.cpp has."""
    if case not in CONSTANTS:
        return CASES[case]
    to = work / "sized" / case
    if to.exists():
        return to
    shutil.copytree(CASES[case], to)
    config = json.loads((to / "config.json").read_text())
    text = config.get("text_config", config)
    small, large = {}, {}
    for field, size in CONSTANTS[case].items():
        small[field], large[field] = text[field], size
        text[field] = size
    (to / "config.json").write_text(json.dumps(config))
    stored = (to / "model.safetensors").read_bytes()
    begin = 8 + int.from_bytes(stored[:8], "little")
    header, data = json.loads(stored[8:begin]), b""
    layers = text["num_hidden_layers"]
    for name, t in header.items():
        if name == "__metadata__":
            continue
        first, last = t["data_offsets"]
        numbers = stored[begin + first : begin + last]
        for field, part in (("hidden_size_per_layer_input", "per_layer"), ("laurel_rank", "laurel.linear")):
            if part in name:
                at = small[field]
                t["shape"] = [large[field] if n == at else large[field] * layers if n == at * layers else n for n in t["shape"]]
        size = 2 * math.prod(t["shape"])
        t["data_offsets"] = [len(data), len(data) + size]
        data += (numbers * (size // len(numbers) + 1))[:size]  # the toy's numbers, repeated
    text_of = json.dumps(header).encode()
    (to / "model.safetensors").write_bytes(len(text_of).to_bytes(8, "little") + text_of + data)
    return to


def prepare(case: str, source: Path, to: Path) -> None:
    """A directory as the converter takes it, with all that published ones have beside the weights."""
    shutil.copytree(source, to)
    config = json.loads((to / "config.json").read_text())
    EDITS.get(case, lambda _: None)(config)
    (to / "config.json").write_text(json.dumps(config))
    if not (to / "preprocessor_config.json").exists():
        (to / "preprocessor_config.json").write_text(json.dumps(PREPROCESSOR))
    said = json.loads((to / "tokenizer_config.json").read_text())
    added = [dict(id=int(i), **t) for i, t in said.get("added_tokens_decoder", {}).items()]
    if not (to / "tokenizer.json").exists() and added:  # it looks for special tokens there
        (to / "tokenizer.json").write_text(json.dumps(dict(added_tokens=added, model={})))
    eos = config.get("eos_token_id") or config.get("text_config", {}).get("eos_token_id")
    if isinstance(eos, list) and not (to / "generation_config.json").exists():
        (to / "generation_config.json").write_text(json.dumps(dict(eos_token_id=eos)))


def convert(case: str, source: Path, file: Path) -> None:
    with tempfile.TemporaryDirectory() as work:
        prepare(case, source, Path(work) / case)
        subprocess.run([CONVERT, Path(work) / case, file], check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def main() -> None:
    out = TESTDATA / "dialect"
    out.mkdir(exist_ok=True)
    for case in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as work:
            file = Path(work) / "model.gguf"
            convert(case, CASES[case], file)
            packed = gzip.compress(file.read_bytes(), 9, mtime=0)
        (out / f"{case}.gguf.gz").write_bytes(packed)
        print(case, len(packed))


if __name__ == "__main__":
    main()
