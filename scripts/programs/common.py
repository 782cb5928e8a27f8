"""What the checks share: which cases there are, and how a result is told."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # it wants the package tokenizers, which not every program has beside it
    from recipes import Recipe

# Where the tensors of a case come from, and with what the answer has to agree.
EXACT = ("hf", "f16", "mlx")  # with the original
Q8_0 = ("q8_0", "ollama")  # with the original after Q8_0
SOURCES = ("hf", "f16", "q8_0", "ollama", "mlx", "mlx-4bit")
# What a program does not read as it is, and a mount passes on as it is.
UNREAD = {("transformers-4", "v5", "hf"): "transformers 4 does not read what transformers 5 writes, mounted or not"}
TEXTS = [
    "The capital of France is",
    "She said: I'll be there at 10:45, won't you?",
    "Übermorgen fahren wir nach Köln. 你好，世界。 Привет!",
    "def add(a, b):\n    return a + b\n",
]
PAIR = ("The weather is fine today.", "Who knows about tomorrow?")
CHAT = [dict(role="user", content="What is the capital of France?")]


@dataclass
class Case:
    name: str
    form: str  # of the config.json that the source was made from
    source: str
    root: Path  # of the models
    seen: Path  # the mounted model

    @property
    def recipe(self) -> Recipe:
        from recipes import RECIPES

        return RECIPES[self.name]

    @property
    def original(self) -> Path:
        """A plain directory, as every program reads it, that has the numbers of this case."""
        if self.source in Q8_0:
            return self.root / "reference/q8_0" / self.name
        if self.source == "mlx-4bit":
            return self.root / "reference/mlx-4bit" / self.name
        return original(self.root, self.name)


def original(root: Path, name: str) -> Path:
    """The model in the older form, which all programs read."""
    return root / "v4/hf" / name


def cases(program: str, wanted: Callable[[str, Recipe], bool]) -> Iterator[Case]:
    """The cases of a program, without those that --only leaves out."""
    from recipes import RECIPES

    root, mounted = Path(os.environ["MODELS"]), Path(os.environ["MOUNTED"])
    only = [part for part in os.environ.get("ONLY", "").split("/") if part]
    for name, recipe in RECIPES.items():
        for form in ("v4", "v5"):
            for source in SOURCES:
                if [name, form, source, program][: len(only)] != only or not wanted(source, recipe):
                    continue
                seen = mounted / "models" / form / source / name
                if source == "ollama":
                    seen = mounted / "ollama" / f"{name.lower()}-{form}" / "q8_0"
                absent = root / form / source / (name + ".absent")
                if absent.exists():
                    tell(name, form, source, program, skipped=absent.read_text())
                    continue
                if why := UNREAD.get((program, form, source)):
                    tell(name, form, source, program, skipped=why)
                    continue
                yield Case(name, form, source, root, seen)


# The form of models that are made once, and where they are: golden models, models whose config.json is as it is published, and models
# with towers.
GOLDEN = dict(any="architectures", published="published", vision="vision", audio="audio")


def golden(program: str, sources: tuple[str, ...], names: Collection[str] = (), forms: Collection[str] = ("any",)) -> Iterator[Case]:
    """The models, or some of them, of testdata/architectures, testdata/published, testdata/vision and testdata/audio: of directories (hf), of the GGUF files that they
    become, and of those with the file of a vision tower beside them (tower)."""
    only = [part for part in os.environ.get("ONLY", "").split("/") if part]
    for form in forms:
        root, seen = Path(os.environ["MODELS"]) / GOLDEN[form], Path(os.environ["MOUNTED"]) / "models" / GOLDEN[form]
        for directory in sorted((root / "hf").glob("*")):  # none where other models alone were asked for
            name = directory.name
            if names and name not in names:
                continue
            places = dict(hf=directory, gguf=root / f"gguf/{name}.gguf", tower=root / "tower" / name)
            for source in sources:
                if [name, form, source, program][: len(only)] != only or source == "tower" and not (places["tower"] / "mmproj.gguf").exists():
                    continue
                if not places[source].exists():
                    why = json.loads((seen / "hf" / name / "gguf/tensorfs.json").read_text())["reason"]
                    tell(name, form, source, program, skipped=f"there is no gguf/: {why}")
                    continue
                yield Case(name, form, source, root, seen / source / name / ("model" if source == "tower" else ""))


def tell(name: str, form: str, source: str, program: str, **what: object) -> None:
    """One line for run.py, which prints the table."""
    print(json.dumps(dict(name=name, form=form, source=source, program=program, **what)), flush=True)


def run(case: Case, program: str, checks: dict[str, Callable[[], None]], gone: Path) -> None:
    """Makes the checks of one case. Each raises what is wrong; those after one that loads nothing are not made."""
    results: dict[str, str] = {}
    began = time.monotonic()
    for what, check in checks.items():
        try:
            if what == "load" and not (gone / "config.json").exists():
                why = json.loads((gone / "tensorfs.json").read_text()).get("reason", "")
                raise AssertionError(f"the directory is absent: {why}")
            check()
            results[what] = ""
        except Exception as e:  # whatever a program raises is a result
            text = str(e) if isinstance(e, AssertionError) else f"{type(e).__name__}: {e}"
            results[what] = " ".join(text.split())[:400] or repr(e)
            if what == "load":
                break
    tell(case.name, case.form, case.source, program, checks=results, seconds=time.monotonic() - began)


def ids_of_logits(size: int) -> list[int]:
    """Forty tokens: more than the sliding windows, and than the length from which Phi-3 rotates otherwise."""
    return [(i * 37 + 11) % size for i in range(40)]


def near(got, want, tolerance: float, what: str) -> None:
    """Whether two arrays agree; the tolerance is a part of the largest number."""
    import numpy as np

    got, want = np.asarray(got, np.float32), np.asarray(want, np.float32)
    assert got.shape == want.shape, f"{what} have the shape {got.shape}, not {want.shape}"
    assert np.isfinite(got).all(), f"{what} are not finite"
    most = float(np.abs(want).max())
    off = float(np.abs(got - want).max())
    assert off <= tolerance * most, f"{what} are off by {off:.3g} of {most:.3g}, {tolerance * most:.1g} is allowed"


def same(got: object, want: object, what: str) -> None:
    assert got == want, f"{what}: {got!r}, not {want!r}"


def ends(case: Case, got: object, what: str) -> None:
    """Whether these are all the end tokens of the original."""
    stored = json.loads((original(case.root, case.name) / "generation_config.json").read_text())["eos_token_id"]
    same(sorted(listed(got)), sorted(listed(stored)), what)


def listed(value: object) -> list:
    return list(value) if isinstance(value, (list, tuple, set)) else [value]


SAMPLING = ("do_sample", "temperature", "top_k", "top_p", "min_p", "repetition_penalty")


def sampling(case: Case, directory: Path) -> None:
    stored = json.loads((directory / "generation_config.json").read_text())
    same({k: stored[k] for k in SAMPLING if k in stored}, case.recipe.sampling, "generation_config.json")
