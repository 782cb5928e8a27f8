"""gguf/ of models with a vision tower in llama.cpp's server, by xllamacpp: what it answers to pictures by way of gguf/model.gguf
and gguf/mmproj.gguf is what it answers by the files of the real converter."""

import base64
import json
import os
import struct
import urllib.error
import urllib.request
import zlib
from pathlib import Path

MARK = "<picture>"
os.environ["LLAMA_MEDIA_MARKER"] = MARK  # read when the library is

import common  # noqa: E402
import xllamacpp  # noqa: E402

PROGRAM = "xllamacpp"
NEAR = 0.02  # logarithms of probabilities, which processors compute in different orders: -14.40 was seen for -14.41


def flat() -> bytes:
    """A picture of one colour, as PNG."""
    rows = (b"\0" + bytes([10, 200, 90]) * 64) * 64

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 64, 64, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


class Server:
    def __init__(self, gguf: Path):
        p = xllamacpp.CommonParams()
        p.model.path, p.mmproj.path = str(gguf / "model.gguf"), str(gguf / "mmproj.gguf")
        p.n_ctx, p.n_parallel, p.warmup, p.fit_params, p.verbosity = 1024, 1, False, False, 0
        p.cpuparams.n_threads = p.cpuparams_batch.n_threads = 1
        self.server = xllamacpp.Server(p)

    def ask(self, prompt: str, pictures: list[bytes], **more: object) -> dict:
        text = dict(prompt_string=prompt, multimodal_data=[base64.b64encode(p).decode() for p in pictures])
        body = json.dumps(dict(prompt=text, temperature=0, cache_prompt=False, **more)).encode()
        request = urllib.request.Request(self.server.listening_address + "/completion", body, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as e:
            raise AssertionError(f"the server answers {json.load(e)}") from e

    def tokens(self, prompt: str, pictures: list[bytes], count: int) -> tuple[list[int], int]:
        got = self.ask(prompt, pictures, n_predict=count, return_tokens=True)
        return got["tokens"], got["tokens_evaluated"]

    def first(self, prompt: str, pictures: list[bytes]) -> dict[int, float]:
        """The best tokens to follow, with the logarithms of their probabilities."""
        got = self.ask(prompt, pictures, n_predict=1, n_probs=5)
        return {t["id"]: t["logprob"] for t in got["completion_probabilities"][0]["top_logprobs"]}


def alike(server: Server, prompt: str, pictures: list[bytes], want: list[list], what: str) -> None:
    """Where nothing was recorded, one of the pieces is no text, and the server lists none."""
    if not want:
        return
    got = server.first(prompt, pictures)
    off = max(abs(got.get(i, -99) - value) for i, value in want)
    assert off <= NEAR, f"{what}: {got}, not {want}"


def check(case: common.Case, want: dict, picture: bytes) -> None:
    seen: list[Server] = []
    prompt, gguf = want["prompt_of_ids"], case.seen / "gguf"

    def load() -> None:
        seen.append(Server(gguf))

    def answers(pictures: list[bytes], ids: str, first: str) -> None:
        got, evaluated = seen[0].tokens(prompt, pictures, len(want[ids]))
        common.same(evaluated, want["prompt_tokens"], "tokens of the prompt")
        common.same(got, want[ids], "tokens")
        alike(seen[0], prompt, pictures, want[first], "the best tokens are")

    def without() -> None:
        alike(seen[0], prompt.replace(MARK, ""), [], want["first_without_picture"], "without a picture the best tokens are")

    checks = {
        "load": load,
        "picture": lambda: answers([picture], "ids", "first"),
        "flat picture": lambda: answers([flat()], "ids_of_flat_picture", "first_of_flat_picture"),
        "no picture": without,
    }
    common.run(case, PROGRAM, checks, case.seen)


def main() -> None:
    expected = Path(os.environ["EXPECTED"])
    picture = (expected.parent / "picture.png").read_bytes()
    wants = {want["case"]: want for want in map(json.loads, (expected / "vision.jsonl").read_text().splitlines())}
    for case in common.golden(PROGRAM, ("hf",), wants):
        check(case, wants[case.name], picture)


if __name__ == "__main__":
    main()
