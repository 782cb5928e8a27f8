"""mlx/ of the models of testdata/architectures in mlx-lm, as they are published and by way of a GGUF file: it loads strictly, and
says what mlx-lm says of the directory that it converted itself."""

import json
import os
from pathlib import Path

import common
import mlx.core as mx
import numpy as np
from common import Case
from mlx_lm.utils import load_model

PROGRAM = "mlx-lm"
FORM = "any"  # the config.json is as published
# Where more than the last bits of F32 may differ: multipliers are worked into the weights of Falcon-H1's GGUF file, which rounds them.
ROUNDED = {("falcon-h1", "gguf"): 2e-2}


def check(case: Case, want: dict) -> None:
    directory = case.seen / "mlx"
    seen: list = []

    def load() -> None:
        model, _ = load_model(directory)
        model.set_dtype(mx.float32)
        seen.append(model)

    def logits(ids: list[int]) -> np.ndarray:
        return np.array(seen[0](mx.array([ids]))[0, -1].astype(mx.float32))

    def top() -> None:
        got = logits(want["prompt"])
        tolerance = ROUNDED.get((case.name, case.source), 1e-4)
        common.near([got[i] for i, _ in want["top"]], [v for _, v in want["top"]], tolerance, "the highest logits")

    def tokens() -> None:
        ids = list(want["prompt"])
        for _ in want["greedy"]:
            ids.append(int(logits(ids).argmax()))
        common.same(ids[len(want["prompt"]) :], want["greedy"], "tokens")

    checks = dict(load=load)
    if "greedy" in want:
        checks |= dict(logits=top, tokens=tokens)
    common.run(case, PROGRAM, checks, directory)


def main() -> None:
    mx.set_default_device(mx.cpu)
    root, seen = (Path(os.environ[k]) / more for k, more in (("MODELS", "architectures"), ("MOUNTED", "models/architectures")))
    only = [part for part in os.environ.get("ONLY", "").split("/") if part]
    for line in (Path(os.environ["EXPECTED"]) / "mlx-run.jsonl").read_text().splitlines():
        want = json.loads(line)
        name = want["case"]
        for source in ("hf", "gguf"):
            if [name, FORM, source, PROGRAM][: len(only)] != only:
                continue
            if source == "gguf" and not (root / source / f"{name}.gguf").exists():
                common.tell(name, FORM, source, PROGRAM, skipped="gguf/ does not have the architecture")
                continue
            told = seen / source / name / "mlx/tensorfs.json"
            reason = json.loads(told.read_text()).get("reason", "")
            if source == "gguf" and reason.startswith("mlx-lm has no architecture"):
                common.tell(name, FORM, source, PROGRAM, skipped="mlx/ does not have the architecture")
                continue
            check(Case(name, FORM, source, root, seen / source / name), want)


if __name__ == "__main__":
    main()
