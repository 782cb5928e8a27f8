"""Files of towers that tensorfs makes, in llama.cpp's server, by xllamacpp: gguf/model.gguf and gguf/mmproj.gguf of each golden
model with a vision or an audio tower are loaded, and what follows a picture or a sound is not what follows another one.

Each runs in a process of its own, because llama.cpp ends its process if it cannot compute something."""

import base64
import json
import math
import os
import random
import struct
import subprocess
import sys
import urllib.error
import urllib.request
import zlib
from pathlib import Path

MARK = "<medium>"
PROGRAM = "xllamacpp"
FORMS = ("vision", "audio")
# Toys that llama.cpp loads and cannot compute: its assertions about their sizes.
SMALL = {
    "deepseek-ocr": "ggml.c: a->ne[d] == b->ne[d]",
    "deepseek-ocr2": "deepseekocr2.cpp: num_image_tokens == 144 || num_image_tokens == 256",
    "unlimited-ocr": "ggml.c: a->ne[d] == b->ne[d]",
    "granite4-vision": "ggml.c: ggml_nelements(a) == ne0*ne1*ne2*ne3",
    "step-vl": "mtmd.cpp: image_tokens->nx > 0",
    "lfm2-audio": "conformer.cpp: model.position_embeddings->ne[1] >= n_pos",
    "meralion2": "whisper-enc.cpp: model.position_embeddings->ne[1] >= n_pos",
}
# The converter's own file is refused as well.
REFUSED = {
    "qwen3-omni": "llama.cpp refuses two towers in one file",
    "gemma3n": "llama.cpp takes 256 numbers of each layer for a token, and the toy has 8",
}


def picture(colour) -> bytes:
    rows = b"".join(b"\0" + b"".join(bytes(colour(x, y)) for x in range(64)) for y in range(64))

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 64, 64, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def sound(sample) -> bytes:
    data = b"".join(struct.pack("<h", int(sample(n / 16000) * 20000)) for n in range(2 * 16000))
    return b"RIFF" + struct.pack("<I4s4sIHHIIHH4sI", 36 + len(data), b"WAVE", b"fmt ", 16, 1, 1, 16000, 32000, 2, 16, b"data", len(data)) + data


def media(form: str) -> list[bytes]:
    if form == "vision":
        return [picture(lambda x, y: (x * 4, y * 4, x * y % 256)), picture(lambda x, y: (10, 200, 90))]
    noise = random.Random(1)
    return [sound(lambda t: math.sin(2 * math.pi * 440 * t)), sound(lambda t: noise.uniform(-1, 1))]


def answer(gguf: Path, form: str) -> None:
    """Prints what llama.cpp makes of two media, one line for each step."""
    os.environ["LLAMA_MEDIA_MARKER"] = MARK  # read when the library is
    import xllamacpp

    p = xllamacpp.CommonParams()
    p.model.path, p.mmproj.path = str(gguf / "model.gguf"), str(gguf / "mmproj.gguf")
    p.n_ctx, p.n_parallel, p.warmup, p.fit_params, p.verbosity = 8192, 1, False, False, 0
    p.cpuparams.n_threads = p.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(p)
    print("loaded", flush=True)
    for medium in media(form):
        text = dict(prompt_string=f"a {MARK} b", multimodal_data=[base64.b64encode(medium).decode()])
        # Any token may follow but the end, so that there are probabilities.
        body = json.dumps(dict(prompt=text, temperature=0, cache_prompt=False, n_predict=2, n_probs=5, ignore_eos=True)).encode()
        request = urllib.request.Request(server.listening_address + "/completion", body, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request) as got:
                print("answer", json.dumps(json.load(got).get("completion_probabilities")), flush=True)
        except urllib.error.HTTPError as e:
            print("refused", e.read().decode(), flush=True)
    os._exit(0)  # without what the library does at the end


def main() -> None:
    import common

    for case in common.golden(PROGRAM, ("hf",), forms=FORMS):
        gguf = case.seen / "gguf"
        if not (gguf / "mmproj.gguf").exists() or not (gguf / "model.gguf").exists():
            left = json.loads((gguf / "tensorfs.json").read_text())
            why = f"there is no file of its tower: {left.get('left_out') or left.get('reason')}"
            if (gguf / "mmproj.gguf").exists():
                why = "its language model is a directory of its own"
            common.tell(case.name, case.form, case.source, PROGRAM, skipped=why)
            continue
        if why := REFUSED.get(case.name):
            common.tell(case.name, case.form, case.source, PROGRAM, skipped=why)
            continue
        done = subprocess.run([sys.executable, __file__, str(gguf), case.form], capture_output=True, text=True, errors="replace")
        lines = done.stdout.splitlines()

        def load() -> None:
            assert "loaded" in lines, f"llama.cpp does not load it: {(done.stdout + done.stderr)[-300:]}"

        def hears() -> None:
            answers = [line for line in lines if line.startswith("answer ")]
            assert len(answers) == 2, f"{lines[1:]} {done.stderr[-300:]}"
            assert answers[0] != answers[1], f"it answers {answers[0]} to both"

        checks = {"load": load}
        if case.name not in SMALL:
            checks["two media"] = hears
        common.run(case, PROGRAM, checks, case.seen)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        answer(Path(sys.argv[1]), sys.argv[2])
    else:
        main()
