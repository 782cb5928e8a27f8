"""mlx/ in mlx-lm: it loads strictly, and computes what mlx-lm computes from the original."""

from functools import cache
from pathlib import Path

import common
import mlx.core as mx
import numpy as np
from common import Case
from mlx_lm import load

PROGRAM = "mlx-lm"


class Loaded:
    """A model computing in F32; codes of quantised weights stay what they are."""

    def __init__(self, directory: Path):
        self.model, self.tokenizer = load(str(directory))
        self.model.set_dtype(mx.float32)

    def logits(self) -> np.ndarray:
        ids = common.ids_of_logits(self.model.args.vocab_size)
        return np.array(self.model(mx.array([ids]))[0].astype(mx.float32))

    def tokens(self) -> list:
        return [self.tokenizer.encode(t) for t in common.TEXTS]


@cache
def wanted(directory: Path) -> Loaded:
    return Loaded(directory)


def original(case: Case) -> Path:
    """Never in transformers 5's form: mlx-lm does not read all of that, which is why mlx/ puts it right."""
    if case.source == "mlx-4bit":
        return case.root / "v4/mlx-4bit" / case.name
    apart = case.root / "reference/q8_0-mlx" / case.name
    if case.source in common.Q8_0 and apart.exists():
        return apart
    if case.recipe.bare and case.source in common.EXACT:
        return case.root / "reference/hf" / case.name
    return case.original


def check(case: Case) -> None:
    directory = case.seen / "mlx"
    seen: list[Loaded] = []

    def logits() -> None:
        # The reference of Q8_0 is rounded to F16, and mlx/ is not.
        tolerance = 2e-3 if case.source in common.Q8_0 else 1e-5
        common.near(seen[0].logits(), wanted(original(case)).logits(), tolerance, "logits")

    def tokens() -> None:
        common.same(seen[0].tokens(), wanted(original(case)).tokens(), "tokens")

    checks = dict(load=lambda: seen.append(Loaded(directory)), logits=logits, tokens=tokens)
    if not case.recipe.pooling:
        checks["ends"] = lambda: common.ends(case, seen[0].tokenizer.eos_token_ids, "end tokens")
        checks["sampling"] = lambda: common.sampling(case, directory)
    common.run(case, PROGRAM, checks, directory)


def main() -> None:
    mx.set_default_device(mx.cpu)
    for case in common.cases(PROGRAM, lambda source, recipe: recipe.mlx):
        check(case)


if __name__ == "__main__":
    main()
