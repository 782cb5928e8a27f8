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
    lines = (Path(os.environ["EXPECTED"]) / "mlx-run.jsonl").read_text().splitlines()
    wants = {want["case"]: want for want in map(json.loads, lines)}
    for case in common.golden(PROGRAM, ("hf", "gguf")):
        if case.name not in wants:
            if case.source == "hf":
                common.tell(case.name, case.form, case.source, PROGRAM, skipped="mlx-lm does not load such a model as it is published")
            continue
        told = json.loads((case.seen / "mlx/tensorfs.json").read_text())
        if case.source == "gguf" and told.get("reason", "").startswith("mlx-lm has no architecture"):
            common.tell(case.name, case.form, case.source, PROGRAM, skipped="mlx/ does not have the architecture")
            continue
        check(case, wants[case.name])


if __name__ == "__main__":
    main()
