"""gguf/ of the models of testdata/architectures and testdata/published, of their vision towers too, and what llama.cpp's converter, as it is installed, writes of them: the same tensors,
byte for byte, and the same keys."""

import json
from fnmatch import fnmatch
from pathlib import Path

import common
import golden

PROGRAM = "converter"  # of llama.cpp
# Keys that it forgets or adds, from release to release, where they say what llama.cpp assumes without them.
ASSUMED = (
    "general.basename general.finetune general.organization general.size_label general.version general.file_type tokenizer.ggml.add_bos_token tokenizer.ggml.add_eos_token "
    "tokenizer.ggml.add_sep_token tokenizer.ggml.add_space_prefix"
).split()
# Keys that the converter writes and llama.cpp does not read for the architecture.
UNREAD = "qwen3moe.expert_shared_feed_forward_length granite.expert_* granite*.ssm.* granite*.attention.head_count_kv".split()
# What llama.cpp wants and the converter loses: a row of the matrix of tokens, and an epsilon where config.json calls it layer_norm_epsilon.
WANTED = "v.token_embd.img_break exaone.attention.layer_norm_rms_epsilon nemotron_h.attention.layer_norm_rms_epsilon".split()
# The converter reads config.json as it stands, and not what transformers 5 makes of it: transformers adds or renames fields there, or the
# release's own code, which is not here, has the class.
RAW = "exaone gpt_neox kimi_k2 llama_bidirec minimax_m3_vl nemotron_h nomic_bert qwen3_next".split()
# What the converter does not do, or does otherwise than the release that the tables are of.
ADDED = {
    "eurobert": "the converter does not know how this classifier pools",
    "minicpmv4.6": "the converter counts a layer that predicts further tokens, of which its class takes no tensors",
    "modern-bert": "newer converters write how a classifier would pool, of models without one, too",
    "qwen2-dca": "transformers' tokenizer of this class adds <|endoftext|>, which the vocabulary does not have",
    "qwen35-moe-square": "the converter counts a layer that predicts further tokens, of which the directory has no tensors",
    "step3.5": "the converter fails without tensors of the layers that predict further tokens",
    "step3.7": "the converter fails without tensors of the layers that predict further tokens",
}
# A layer that predicts further tokens is left out of gguf/ of these, with a note.
WITHOUT_MTP = ("nemotron_h",)
TYPES = {0: "f32", 1: "f16", 32: "bf16", 38: "auto"}


def assumed(name: str, keys: dict) -> bool:
    """Heads that share the width evenly need no length."""

    def number(end: str):
        return next((v["value"] for k, v in keys.items() if k.endswith(end)), None)

    if name.endswith((".attention.key_length", ".attention.value_length")):
        width, heads = number(".embedding_length"), number(".attention.head_count")
        return name not in keys or isinstance(heads, int) and keys[name]["value"] * heads == width
    return name in ASSUMED or name == "tokenizer.ggml.pre" and keys["tokenizer.ggml.model"]["value"] == "bert"


def model_type(directory: Path) -> str:
    return json.loads((directory / "config.json").read_text()).get("model_type", "")


def beyond(name: str, keys: dict) -> bool:
    """Whether a key is the number of a token that the vocabulary does not have. llama.cpp takes no notice of one."""
    return name.endswith("_token_id") and keys.get(name, {"value": 0})["value"] >= len(keys["tokenizer.ggml.tokens"]["value"])


def differences(file: Path, directory: Path, more: list[str]) -> str:
    keys, rows = golden.stored(file)
    pre = keys.get("tokenizer.ggml.pre", {}).get("value", "")
    more = more + ["--no-mtp"] * (model_type(directory) in WITHOUT_MTP)
    want, wanted = golden.converted(directory, pre, TYPES[keys["general.file_type"]["value"]], more, model_type(directory) in RAW)
    wrong = [name for name in rows.keys() | wanted.keys() if rows.get(name) != wanted.get(name)]
    # PyTorch does not round each exp correctly, and each release otherwise.
    wrong = [name for name in wrong if not name.endswith(".ssm_a")]
    wrong += [k for k in keys.keys() | want.keys() if keys.get(k) != want.get(k) and not (assumed(k, keys) or assumed(k, want) or beyond(k, want))]
    return ", ".join(sorted(name for name in wrong if not any(fnmatch(name, p) for p in UNREAD + WANTED))[:6])


def main() -> None:
    for case in common.golden(PROGRAM, ("gguf", "tower"), forms=("any", "published")):
        directory, tower = case.root / "hf" / case.name, case.source == "tower"
        seeing = case.root.parent.parent / "seeing" / case.name  # with the preprocessor_config.json that the directory lacks
        if tower and seeing.exists():
            directory = seeing
        file = case.root / (f"tower/{case.name}/mmproj.gguf" if tower else f"gguf/{case.name}.gguf")
        try:
            wrong = differences(file, directory, ["--mmproj"] if tower else [])
            said = wrong and f"these differ: {wrong}"
        except Exception as e:  # of the converter
            said = f"the converter fails: {type(e).__name__}: {e}"[-300:]
        if said and case.name in ADDED and not tower:
            common.tell(case.name, case.form, case.source, PROGRAM, skipped=ADDED[case.name])
            continue
        common.tell(case.name, case.form, case.source, PROGRAM, checks=dict(convert=said))


if __name__ == "__main__":
    main()
