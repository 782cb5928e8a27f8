"""mlx_lm.convert itself, and mlx/ as tensorfs makes it of the same directory.

Each golden directory is converted in several ways by the installed mlx-lm, on the CPU that it runs on. mlx/ of the same flags with
--mlx-device cpu has to have the same tensors, byte for byte, and to say the same of them in config.json; and mlx-lm has to load it.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import mlx.core as mx
from mlx_lm.convert import convert
from mlx_lm.utils import load_model

WAYS = {
    "4 bits": (["--mlx-bits", "4", "--mlx-group", "32"], dict(q_bits=4, q_group_size=32)),
    "mixed_4_6": (["--mlx-recipe", "mixed_4_6", "--mlx-group", "32"], dict(quant_predicate="mixed_4_6", q_group_size=32)),
    "mxfp4": (["--mlx-mode", "mxfp4"], dict(q_mode="mxfp4")),
}


def tensors(directory: Path) -> dict[str, mx.array]:
    found = {}
    for file in sorted(directory.glob("model*.safetensors")):
        found |= mx.load(str(file))
    return found


def differs(a: mx.array, b: mx.array) -> bool:
    return a.dtype != b.dtype or a.shape != b.shape or bytes(memoryview(a.view(mx.uint8))) != bytes(memoryview(b.view(mx.uint8)))


def compare(ours: Path, theirs: Path) -> str:
    a, b = tensors(ours), tensors(theirs)
    if a.keys() != b.keys():
        return f"other tensors: {sorted(a.keys() ^ b.keys())[:4]}"
    wrong = [name for name in a if differs(a[name], b[name])]
    if wrong:
        return f"{len(wrong)} of {len(a)} tensors differ, the first is {sorted(wrong)[0]}"
    said = [json.loads((d / "config.json").read_text())["quantization"] for d in (ours, theirs)]
    if said[0] != said[1]:
        return "config.json says something else of the modules"
    load_model(ours, strict=True)
    return ""


def check(source: Path, work: Path) -> None:
    checks = {}
    for way, (flags, arguments) in WAYS.items():
        ours, theirs, plain = work / "ours", work / "theirs", work / "plain"
        for directory in (ours, theirs, plain):
            shutil.rmtree(directory, ignore_errors=True)
        export(source, ours, *flags, "--mlx-device", "cpu")
        if not (ours / "mlx/config.json").exists():  # mlx/tensorfs.json says why
            continue
        export(source, plain)  # as it is, with the fields that mlx-lm wants
        given = plain / "mlx"
        for file in source.glob("*.json"):
            if not (given / file.name).exists():
                shutil.copy(file, given / file.name)
        config = json.loads((given / "config.json").read_text())
        if "torch_dtype" not in json.loads((source / "config.json").read_text()):  # mlx-lm casts by it alone
            config.pop("torch_dtype", None)
        (given / "config.json").unlink()
        (given / "config.json").write_text(json.dumps(config))
        try:
            with contextlib.redirect_stdout(sys.stderr):
                convert(str(given), str(theirs), quantize=True, **arguments)
            checks[way] = compare(ours / "mlx", theirs)
        except Exception as error:  # noqa: BLE001
            checks[way] = repr(error)
    if checks:
        print(json.dumps(dict(name=source.name, form="", source="convert", program="mlx-lm", checks=checks)), flush=True)


def export(source: Path, to: Path, *flags: str) -> None:
    subprocess.run([os.environ["TENSORFS"], "export", *flags, source, to, "mlx"], stdout=sys.stderr, check=False)


# mlx_lm.convert does not come to write these: the transformers beside it does not read their config.json.
UNREAD = ("exaone", "kimi-k2")


def main() -> None:
    mx.set_default_device(mx.cpu)
    testdata = Path(__file__).resolve().parents[2] / "testdata"
    only = os.environ.get("ONLY", "").split("/")[0]
    for config in sorted([*testdata.glob("architectures/*/config.json"), *testdata.glob("whole-gguf/*/config.json")]):
        source = config.parent
        if source.name in UNREAD or source.name.startswith("mlx-") or only and source.name != only:
            continue
        with tempfile.TemporaryDirectory() as work:
            check(source, Path(work))


if __name__ == "__main__":
    main()
