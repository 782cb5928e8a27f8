"""mlx_lm.convert itself, and mlx/ as tensorfs makes it of the same directory: check_convert.py TENSORFS WORK DIRECTORY...

Each directory is converted in several ways by the installed mlx-lm, on the CPU that it runs on. mlx/ of the same flags with
--mlx-device cpu has to have the same tensors, byte for byte, and to say the same of them in config.json; and mlx-lm has to load it.
"""

import json
import shutil
import subprocess
import sys
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


def check(tensorfs: str, work: Path, source: Path) -> tuple[int, int]:
    done = failed = 0
    for way, (flags, arguments) in WAYS.items():
        ours, theirs = work / "ours", work / "theirs"
        for directory in (ours, theirs):
            shutil.rmtree(directory, ignore_errors=True)
        told = subprocess.run([tensorfs, "export", *flags, "--mlx-device", "cpu", source, ours, "mlx"], capture_output=True, text=True, check=False)
        if not (ours / "mlx/config.json").exists():
            print(f"  {source.name:20} {way:10} left out: {told.stderr.strip()[-160:]}")
            continue
        try:
            plain = work / "plain"  # config.json with the fields that mlx-lm wants
            shutil.rmtree(plain, ignore_errors=True)
            subprocess.run([tensorfs, "export", source, plain, "mlx"], capture_output=True, check=True)
            for file in source.glob("*.json"):
                if file.name != "config.json" and not (plain / "mlx" / file.name).exists():
                    shutil.copy(file, plain / "mlx" / file.name)
            said, real = json.loads((plain / "mlx/config.json").read_text()), json.loads((source / "config.json").read_text())
            if "torch_dtype" not in real:  # mlx-lm would not cast
                said.pop("torch_dtype", None)
                (plain / "mlx/config.json").unlink()
                (plain / "mlx/config.json").write_text(json.dumps(said))
            convert(str(plain / "mlx"), str(theirs), quantize=True, **arguments)
            why = compare(ours / "mlx", theirs)
        except Exception as error:  # noqa: BLE001
            why = repr(error)
        done += 1
        failed += why != ""
        print(f"  {source.name:20} {way:10} {why or 'the same bytes'}")
    return done, failed


def main() -> None:
    mx.set_default_device(mx.cpu)
    counts = [check(sys.argv[1], Path(sys.argv[2]), Path(d)) for d in sys.argv[3:]]
    done, failed = sum(c[0] for c in counts), sum(c[1] for c in counts)
    print(f"mlx_lm.convert: {done - failed} of {done} the same")
    if failed or not done:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
