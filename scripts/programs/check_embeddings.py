"""hf/ in sentence-transformers: the embeddings of a mounted model are those of the original."""

from functools import cache
from pathlib import Path

import common
import numpy as np
import torch
from common import Case
from sentence_transformers import SentenceTransformer

PROGRAM = "sentence-transformers"
# Those of testdata/architectures that are read for their states.
ENCODERS = ("distilbert", "eurobert", "modern-bert", "nomic-bert", "qwen3-embedding", "roberta", "xlm-roberta")


def load(directory: Path) -> SentenceTransformer:
    return SentenceTransformer(str(directory), device="cpu", model_kwargs=dict(dtype=torch.float32))


@cache
def wanted(directory: Path) -> np.ndarray:
    return encode(load(directory))


def encode(model: SentenceTransformer) -> np.ndarray:
    return model.encode([*common.TEXTS, *common.PAIR])


def check(case: Case) -> None:
    hf = case.seen / "hf"
    seen: list[np.ndarray] = []

    def embeddings() -> None:
        want = wanted(case.original)
        cosines = (seen[0] * want).sum(axis=1) / np.linalg.norm(seen[0], axis=1) / np.linalg.norm(want, axis=1)
        assert cosines.min() > 1 - 1e-5, f"cosines to the original's are {', '.join(f'{c:.4f}' for c in cosines)}"

    def length() -> None:
        lengths = np.linalg.norm(seen[0], axis=1)
        assert np.abs(lengths - 1).max() < 1e-5, f"embeddings are {lengths.min():.3g} to {lengths.max():.3g} long, not 1"

    common.run(case, PROGRAM, dict(load=lambda: seen.append(encode(load(hf))), embeddings=embeddings, length=length), hf)


def check_states(case: Case) -> None:
    """The states of every token: how they are pooled, these directories do not say as they are published."""
    hf = case.seen / "hf"
    seen: list[SentenceTransformer] = []

    def states(model: SentenceTransformer) -> list[np.ndarray]:
        tokenizer = model.tokenizer
        tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token  # with texts one by one it stands nowhere
        # Of XLM-R a GGUF file does not say that line feeds are dropped, and llama.cpp keeps them.
        texts = [text for text in common.TEXTS if "\n" not in text]
        return [t.numpy() for t in model.encode(texts, output_value="token_embeddings", batch_size=1)]

    def embeddings() -> None:
        for got, want in zip(states(seen[0]), states(load(case.root / "hf" / case.name)), strict=True):
            common.near(got, want, 0, "states")

    common.run(case, PROGRAM, dict(load=lambda: seen.append(load(hf)), embeddings=embeddings), hf)


def main() -> None:
    torch.set_num_threads(1)
    for case in common.golden(PROGRAM, ("hf", "gguf"), ENCODERS):
        check_states(case)
    for case in common.cases(PROGRAM, lambda source, recipe: bool(recipe.pooling) and not source.startswith("mlx")):
        check(case)


if __name__ == "__main__":
    main()
