"""gguf/ of the models of testdata/architectures, and what llama.cpp's converter, as it is installed, writes of them: the same tensors,
byte for byte, and the same keys."""

import json
from pathlib import Path

import common
import golden

PROGRAM = "converter"  # of llama.cpp
# Keys that it forgets or adds, from release to release, where they say what llama.cpp assumes without them.
ASSUMED = (
    "general.basename general.finetune general.size_label general.file_type tokenizer.ggml.add_bos_token tokenizer.ggml.add_eos_token "
    "tokenizer.ggml.add_sep_token tokenizer.ggml.add_space_prefix"
).split()
# What transformers 5 adds to the config.json that the converter sees, or a newer converter writes, and the release that the tables are of does not.
ADDED = {
    "minicpmv4.6": "the converter counts a layer that predicts further tokens, of which its class takes no tensors",
    "nemotron_h": "transformers 5 adds experts to this config.json, and the converter takes it for the architecture that has some",
    "nomic-bert-moe": "transformers 5 takes this config.json for its own class, which has no experts",
    "modern-bert": "newer converters write how a classifier would pool, of models without one, too",
    "qwen3-next": "transformers 5 adds layer_types to this config.json, which become a key",
}
TYPES = {0: "f32", 1: "f16", 32: "bf16"}


def assumed(name: str, keys: dict) -> bool:
    """Heads that share the width evenly need no length."""

    def number(end: str):
        return next((v["value"] for k, v in keys.items() if k.endswith(end)), None)

    if name.endswith((".attention.key_length", ".attention.value_length")):
        width, heads = number(".embedding_length"), number(".attention.head_count")
        return name not in keys or isinstance(heads, int) and keys[name]["value"] * heads == width
    return name in ASSUMED or name == "tokenizer.ggml.pre" and keys["tokenizer.ggml.model"]["value"] == "bert"


def differences(file: Path, directory: Path) -> str:
    keys, rows = golden.stored(file)
    pre = keys.get("tokenizer.ggml.pre", {}).get("value", "")
    want, wanted = golden.converted(directory, pre, TYPES[keys["general.file_type"]["value"]])
    wrong = [name for name in rows.keys() | wanted.keys() if rows.get(name) != wanted.get(name)]
    # PyTorch does not round each exp correctly, and each release otherwise.
    wrong = [name for name in wrong if not name.endswith(".ssm_a")]
    wrong += [k for k in keys.keys() | want.keys() if keys.get(k) != want.get(k) and not (assumed(k, keys) or assumed(k, want))]
    return ", ".join(sorted(wrong)[:6])


def main() -> None:
    for case in common.golden(PROGRAM, ("gguf",)):
        directory = case.root / "hf" / case.name
        try:
            said = differences(case.root / f"gguf/{case.name}.gguf", directory)
        except Exception as e:  # of the converter
            common.tell(case.name, case.form, case.source, PROGRAM, skipped=f"the converter fails: {type(e).__name__}: {e}"[:300])
            continue
        if said and case.name in ADDED:
            common.tell(case.name, case.form, case.source, PROGRAM, skipped=ADDED[case.name])
            continue
        common.tell(case.name, case.form, case.source, PROGRAM, checks=dict(convert=said and f"these differ: {said}"))


if __name__ == "__main__":
    main()
