"""testdata/ollama-towers: what the converter of Ollama's Go module, of the last release before llama.cpp's, and llama.cpp's own with --outtype f16
make of the towers of testdata/architectures, or of testdata/ollama-towers/CASE: ollama_towers.py CASE..., in the environment convert of those that ./setup makes

CASE.tsv        tensors of towers in Ollama's file: name, type, ne (fastest first), bytes, SHA-256, the tensor of model.safetensors with these
                numbers, and how: same, plus1, rows/N/OF of its first dimension, frame/N of its third, pixels (channels last become first)
CASE.meta.json  the keys of that file that no language model has
CASE.mmproj.tsv tensors of llama.cpp's file, and CASE.mmproj.meta.json its keys, of cases of which architectures/expected has none
A case without preprocessor_config.json gets the means and deviations of OpenAI's CLIP.
"""

import hashlib
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

TESTDATA = Path(__file__).resolve().parents[2] / "testdata"
CONVERTER = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tensorfs-tests/programs/converter"
sys.path.insert(0, str(CONVERTER / "gguf-py"))
from gguf import GGUFReader, GGUFValueType  # noqa: E402

CLIP = {"image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711]}
RELEASE = "v0.24.0"
TOWERS = ("v.", "a.", "s.", "mm.")
MAIN = """package main

import (
	"log"
	"os"

	"github.com/ollama/ollama/convert"
)

func main() {
	f, err := os.Create(os.Args[2])
	if err == nil {
		err = convert.ConvertModel(os.DirFS(os.Args[1]), f)
	}
	if err != nil {
		log.Fatal(err)
	}
}
"""


def numbers(file: Path) -> dict[str, np.ndarray]:
    """The tensors of a safetensors file as F32."""
    data = file.read_bytes()
    size = int.from_bytes(data[:8], "little")
    read = {"F32": np.float32, "F16": np.float16, "BF16": np.uint16}
    out = {}
    for name, t in json.loads(data[8 : 8 + size]).items():
        if name == "__metadata__" or t["dtype"] not in read:
            continue
        begin, end = (8 + size + x for x in t["data_offsets"])
        a = np.frombuffer(data[begin:end], read[t["dtype"]])
        if t["dtype"] == "BF16":
            a = (a.astype(np.uint32) << 16).view(np.float32)
        out[name] = a.astype(np.float32).reshape(t["shape"])
    return out


def forms(a: np.ndarray):
    """What may have become of a tensor, and how."""
    yield "same", a
    yield "plus1", a + np.float32(1)
    for of in (2, 3):
        if a.ndim and a.shape[0] % of == 0:
            for n in range(of):
                yield f"rows/{n}/{of}", np.split(a, of)[n]
    if a.ndim == 5 and a.shape[2] == 2:
        for n in range(2):
            yield f"frame/{n}", a[:, :, n]
    if a.ndim == 2 and a.shape[1] % 3 == 0 and math.isqrt(a.shape[1] // 3) ** 2 == a.shape[1] // 3:
        yield "pixels", a.reshape(a.shape[0], -1, 3).transpose(0, 2, 1)


def row(t, *more: str) -> str:
    data = t.data.tobytes()
    ne = "x".join(str(int(n)) for n in t.shape)
    return "\t".join([t.name, t.tensor_type.name, ne, str(len(data)), hashlib.sha256(data).hexdigest(), *more]) + "\n"


def source(t, model: dict[str, np.ndarray]) -> tuple[str, str]:
    data = t.data.tobytes()
    for name, a in model.items():
        if a.size < t.n_elements:
            continue
        for how, form in forms(a):
            if form.size == t.n_elements and np.ascontiguousarray(form).astype({"F32": np.float32, "F16": np.float16}[t.tensor_type.name]).tobytes() == data:
                return name, how
    sys.exit(f"{t.name} is not made of one tensor")


def case(name: str, convert: Path, to: Path) -> None:
    model = next(d for d in (TESTDATA / "ollama-towers" / name, TESTDATA / "architectures" / name) if d.exists())
    published = (TESTDATA / f"architectures/expected/{name}.mmproj.meta.json").exists()
    if not (model / "preprocessor_config.json").exists():
        model = shutil.copytree(model, to / name)
        (model / "preprocessor_config.json").write_text(json.dumps(CLIP))
    file, projector = to / f"{name}.gguf", to / f"{name}.mmproj.gguf"
    subprocess.run([convert, model, file], check=True)
    subprocess.run([sys.executable, CONVERTER / "convert_hf_to_gguf.py", "--mmproj", "--outtype", "f16", "--outfile", projector, model], check=True)
    out = TESTDATA / "ollama-towers"
    out.mkdir(exist_ok=True)
    ours, theirs = GGUFReader(file), GGUFReader(projector)
    all_numbers = numbers(model / "model.safetensors")
    head = "name\ttype\tne\tbytes\tsha256"
    rows = [row(t, *source(t, all_numbers)) for t in ours.tensors if t.name.startswith(TOWERS)]
    (out / f"{name}.tsv").write_text(f"{head}\tsource\thow\n" + "".join(rows))
    (out / f"{name}.mmproj.tsv").write_text(f"{head}\n" + "".join(row(t) for t in theirs.tensors))
    arch = ours.fields["general.architecture"].contents()
    write_keys(out / f"{name}.meta.json", ours, lambda key: key.removeprefix(f"{arch}.").split(".")[0] in ("vision", "audio", "sam", "mm", "spatial_merge_size"))
    if not published:
        write_keys(out / f"{name}.mmproj.meta.json", theirs, lambda key: key.startswith(("general.", "clip.")))


def write_keys(file: Path, of: GGUFReader, wanted) -> None:
    keys = {}
    for key, f in of.fields.items():
        if wanted(key):
            kind = f.types[0].name if f.types[0] != GGUFValueType.ARRAY else f"array:{f.types[-1].name}"
            keys[key] = {"type": kind, "value": f.contents()}
    text = ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in keys.items())
    file.write_text("{\n" + text + "\n}\n")


def main() -> None:
    with tempfile.TemporaryDirectory() as tmp:
        to = Path(tmp)
        (to / "main.go").write_text(MAIN)
        (to / "go.mod").write_text(f"module convert\n\ngo 1.26\n\nrequire github.com/ollama/ollama {RELEASE}\n")
        subprocess.run(["go", "build", "-mod=mod", "-o", "convert", "."], cwd=to, check=True)
        for name in sys.argv[1:]:
            case(name, to / "convert", to)


main()
