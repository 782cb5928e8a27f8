"""hf/ in transformers 4 and 5: what it loads is what it loads from the original."""

import json
from functools import cache
from pathlib import Path

import common
import numpy as np
import torch
import transformers
from common import Case

MAJOR = transformers.__version__.split(".")[0]
PROGRAM = f"transformers-{MAJOR}"
# One integer and no list in config.json, because other programs refuse a list there.
ONE_END = ("phi3", "falcon", "lfm2", "gpt2", "bloom")


class Loaded:
    """A model and its tokenizer, computing in F32, in which all stored numbers are exact."""

    def __init__(self, directory: Path, decoder: bool):
        kind = transformers.AutoModelForCausalLM if decoder else transformers.AutoModel
        dtype = {"dtype" if MAJOR == "5" else "torch_dtype": torch.float32}
        self.model, self.report = kind.from_pretrained(directory, output_loading_info=True, **dtype)
        self.model = self.model.eval().float()
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(directory)

    def logits(self) -> np.ndarray:
        ids = torch.tensor([common.ids_of_logits(self.model.config.vocab_size)])
        with torch.no_grad():
            return self.model(input_ids=ids).logits[0].numpy()

    def pair(self) -> np.ndarray:
        with torch.no_grad():
            return self.model(**self.tokenizer(*common.PAIR, return_tensors="pt")).last_hidden_state[0].numpy()

    def greedy(self) -> list[int]:
        words = self.tokenizer(common.TEXTS[0], return_tensors="pt")
        return self.model.generate(**words, max_new_tokens=12, do_sample=False)[0].tolist()

    def tokens(self) -> list:
        ids = [self.tokenizer(t)["input_ids"] for t in common.TEXTS]
        return [ids, [self.tokenizer.decode(i, skip_special_tokens=True) for i in ids]]

    def chat(self) -> str:
        return self.tokenizer.apply_chat_template(common.CHAT, tokenize=False, add_generation_prompt=True)


@cache
def load(directory: Path, decoder: bool) -> Loaded:
    return Loaded(directory, decoder)


def check(case: Case) -> None:
    hf, recipe = case.seen / "hf", case.recipe
    decoder = not recipe.model.startswith("Bert")
    seen: list[Loaded] = []

    def loads() -> None:
        seen.append(Loaded(hf, decoder))
        report = {k: sorted(v) for k, v in seen[0].report.items() if v}
        # GGUF has no pooler of BERT, and pooled embeddings do not need one.
        report["missing_keys"] = [k for k in report.get("missing_keys", []) if not k.startswith("pooler.")]
        wrong = {k: v for k, v in report.items() if v}
        assert not wrong, f"the load report is not clean: {wrong}"

    def logits() -> None:
        common.near(seen[0].logits(), load(case.original, True).logits(), 0, "logits")

    def pair() -> None:
        common.near(seen[0].pair(), load(case.original, False).pair(), 0, "states of a pair of texts")

    def generate() -> None:
        common.same(seen[0].greedy(), load(case.original, True).greedy(), "greedy tokens")

    def tokens() -> None:
        want = load(common.original(case.root, case.name), decoder)
        common.same(seen[0].tokens(), want.tokens(), "tokens")
        if recipe.chat:
            common.same(seen[0].chat(), want.chat(), "the chat template gives")

    def ends() -> None:
        common.ends(case, seen[0].model.generation_config.eos_token_id, "end tokens")
        if case.source in ("f16", "q8_0", "ollama"):
            stored = json.loads((hf / "config.json").read_text())
            if stored["model_type"] in ONE_END:
                assert isinstance(stored["eos_token_id"], int), "config.json has a list of end tokens"
            else:
                common.ends(case, stored["eos_token_id"], "end tokens in config.json")

    checks = dict(load=loads)
    if decoder:
        checks |= dict(logits=logits, tokens=tokens)
        if not recipe.pooling:
            checks |= dict(generate=generate, ends=ends, sampling=lambda: common.sampling(case, hf))
    else:
        checks |= dict(pair=pair, tokens=tokens)
    common.run(case, PROGRAM, checks, hf)


def main() -> None:
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    for case in common.cases(PROGRAM, lambda source, recipe: recipe.mlx or not source.startswith("mlx")):
        check(case)


if __name__ == "__main__":
    main()
