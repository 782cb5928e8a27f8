"""hf/ of GGUF files in candle and mistral.rs: candle's structs read config.json, and mistral.rs loads the model.

The models are the golden ones of this repository, whose GGUF files tensorfs makes: of every class that the two have.
"""

import json
import os
import subprocess
from pathlib import Path

import mistralrs

# What a program refuses in the released file as well, or does not have: the model, and a part of what it says.
REFUSED = {
    "candle": {
        "mixtral": "use_flash_attn",  # no released config.json has it
        "mlx-mixtral-mxfp4": "use_flash_attn",
        "mamba": "d_model",  # it reads the form from before transformers
        "mamba-lm": "d_model",
        "llama3": "longrope",  # parameters of rope that no release has: its GGUF file keeps what follows from them
        "mlx-llama3-4bit": "longrope",
        "llama.q4_k_m": "longrope",
    },
    "mistral.rs": {
        "llama3": "longrope",
        "mlx-llama3-4bit": "longrope",
        "llama.q4_k_m": "longrope",
        "syn-gpt-oss-dense": "experts.gate_proj",  # it reads these experts as MXFP4 alone
        "spark25": "tokenizer.json",  # there is none: how its tokenizer cuts texts is not known
        "voxtral": "shape mismatch",  # its Llama has no head_dim
        "minicpmv4.6": "three non-zero sections",  # the toy turns two pairs of numbers alone, released ones 32
    },
}


def directories() -> dict[str, Path]:
    """hf/ of each model that has one, by name."""
    root = Path(os.environ["MOUNTED"]) / "golden"
    return {d.name: d / "hf" for d in sorted(root.iterdir()) if (d / "hf/config.json").exists()}


def report(program: str, name: str, wrong: str) -> None:
    """Tells a result: "" is none, and a class that the program does not have is skipped."""
    expected = REFUSED[program].get(name)
    result: dict[str, object] = {}
    if expected and expected in wrong:
        result["skipped"] = f"{program} refuses this: {expected}"
    elif wrong == "no class" or "Unsupported Hugging Face Transformers" in wrong:
        result["skipped"] = f"{program} does not have the class"
    else:
        if expected and not wrong:
            wrong = f"it is not refused any more: {expected}"
        result["checks"] = {"config.json" if program == "candle" else "load": wrong}
    print(json.dumps(dict(name=name, form="golden", source="gguf", program=program) | result), flush=True)


def candle(found: dict[str, Path]) -> None:
    paths = "\n".join(str(d / "config.json") for d in found.values())
    answers = subprocess.run([os.environ["CANDLE"]], input=paths, capture_output=True, text=True, check=True)
    for name, answer in zip(found, answers.stdout.splitlines(), strict=True):
        report("candle", name, "" if answer == "ok" else answer)


def mistral(name: str, directory: Path) -> None:
    wrong = ""
    try:
        mistralrs.Runner(which=mistralrs.Which.Plain(model_id=str(directory)), max_seqs=1)
    except BaseException as e:  # where it does not raise, it panics
        wrong = " ".join(str(e).split())[:300] or repr(e)
    report("mistral.rs", name, wrong)


def main() -> None:
    found = directories()
    if Path(os.environ["CANDLE"]).exists():
        candle(found)
    else:
        report("candle", "all", "no class")  # setup said that there is no cargo
    for name, directory in found.items():
        mistral(name, directory)


if __name__ == "__main__":
    main()
