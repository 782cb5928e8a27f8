"""What `tensorfs export --to-...` and `tensorfs fetch` write into the stores of other programs, in these programs.

Ollama lists, shows and runs what --to-ollama wrote, and its own `ollama create` writes the same manifest of the same GGUF files.
transformers, which may ask nobody, loads what `fetch` brought from a Hub, and what --to-hf-cache wrote.
"""

import hashlib
import http.server
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import common

TESTDATA = Path(__file__).resolve().parents[2] / "testdata"
TENSORFS, OLLAMA = os.environ["TENSORFS"], os.environ["OLLAMA"]
SMALL = "whole-gguf/qwen2"
# The model, and flags of the export: as stored, quantised, with a vision tower, and with a chat template that Ollama knows (all Qwen).
MODELS = (
    (SMALL, ()),
    (SMALL, ("--gguf-type", "q8_0")),
    ("whole-gguf/gemma3", ()),
    ("whole-gguf/qwen3moe", ()),
    ("whole-gguf/llama3", ()),
    ("architectures/gemma3-vl", ()),
)


def tensorfs(*words: str | Path, **env: str) -> str:
    done = subprocess.run([TENSORFS, *map(str, words)], capture_output=True, text=True, env=os.environ | env)
    assert done.returncode == 0, done.stderr.strip()
    return done.stdout


@contextmanager
def ollama_server(work: Path) -> Iterator[dict[str, str]]:
    """Ollama with a store of its own; what its commands need in their environment."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{s.getsockname()[1]}"
    # Its own home, because it makes keys there.
    env = dict(OLLAMA_HOST=host, OLLAMA_MODELS=str(work / "models"), HOME=str(work), OLLAMA_NO_CLOUD="1")
    with (work / "log").open("w") as log:
        server = subprocess.Popen([OLLAMA, "serve"], env=os.environ | env, stdout=log, stderr=log)
    try:
        for _ in range(600):
            try:
                urllib.request.urlopen(f"http://{host}/api/version").close()
                break
            except OSError:
                assert server.poll() is None, (work / "log").read_text()[-400:]
                time.sleep(0.1)
        yield env
    finally:
        server.terminate()
        server.wait()


def ollama(env: dict[str, str], *words: str | Path) -> str:
    done = subprocess.run([OLLAMA, *map(str, words)], capture_output=True, text=True, env=os.environ | env, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, f"ollama {words[0]}: {' '.join(done.stderr.split())[-300:]}"
    return done.stdout


def answer(env: dict[str, str], name: str) -> list[int]:
    """The tokens of a text and of what the model says to it."""
    ask = dict(model=name, prompt="abc", stream=False, options=dict(temperature=0, seed=1, num_predict=8))
    request = urllib.request.Request(f"http://{env['OLLAMA_HOST']}/api/generate", json.dumps(ask).encode())
    with urllib.request.urlopen(request) as reply:
        return json.load(reply)["context"]


def manifest(env: dict[str, str], name: str) -> tuple[dict, dict]:
    """A manifest and its config. The order of files that `ollama create` was given together differs from run to run."""
    store = Path(env["OLLAMA_MODELS"])
    m = json.loads((store / "manifests/registry.ollama.ai/library" / name / "latest").read_text())
    config = json.loads((store / "blobs" / m.pop("config")["digest"].replace(":", "-")).read_text())
    if any(layer["mediaType"].endswith(".projector") for layer in m["layers"]):
        m["layers"].sort(key=lambda layer: layer["digest"])
        config["rootfs"]["diff_ids"].sort()
        config["model_families"].sort()
        for first in ("model_family", "model_type", "file_type"):
            del config[first]
    return m, config


def check_ollama(env: dict[str, str], work: Path, model: str, flags: tuple[str, ...]) -> dict[str, Callable[[], None]]:
    name = "-".join([Path(model).name, *flags]).replace("--gguf-type-", "").lower()
    ours, theirs = f"ours-{name}", f"theirs-{name}"

    def load() -> None:
        tensorfs("export", "--to-ollama", ours, *flags, TESTDATA / model, **env)
        assert f"{ours}:latest" in ollama(env, "list"), "ollama list does not have it"

    def show() -> None:
        said = ollama(env, "show", ours)
        config = json.loads((TESTDATA / model / "config.json").read_text())
        for word in ("architecture", "parameters", "quantization"):
            assert word in said, f"{word} is not in {said}"
        if "vision_config" in config:
            assert "Projector" in said and "vision" in said, said

    def create() -> None:
        lines = []
        for file in ("model.gguf", "mmproj.gguf"):
            made = subprocess.run([TENSORFS, "cat", *flags, TESTDATA / model, f"gguf/{file}"], capture_output=True)
            if made.returncode == 0:
                (work / file).write_bytes(made.stdout)
                lines.append(f"FROM ./{file}\n")
        (work / "Modelfile").write_text("".join(lines))
        ollama(env, "create", theirs, "-f", work / "Modelfile")
        common.same(manifest(env, ours), manifest(env, theirs), "the manifest and its config")

    def answers() -> None:
        common.same(answer(env, ours), answer(env, theirs), "tokens")

    return dict(load=load, show=show, create=create, answer=answers)


class Hub(http.server.BaseHTTPRequestHandler):
    """A Hub with one repository, of the files of a directory."""

    files: dict[str, bytes]
    commit = hashlib.sha1(b"commit").hexdigest()

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
        name = path.rpartition(f"/resolve/{self.commit}/")[2]
        if path.startswith("/api/models/acme/tiny/revision/"):
            self.answer(json.dumps(dict(id="acme/tiny", sha=self.commit, siblings=[dict(rfilename=n) for n in self.files])).encode())
        elif path.startswith("/api/models/acme/tiny/tree/"):
            self.answer(json.dumps([self.entry(n) for n in self.files]).encode())
        elif name in self.files:
            self.answer(self.files[name], dict(ETag=f'"{self.oid(name)}"', **{"X-Repo-Commit": self.commit}))
        else:
            self.send_error(404)

    def oid(self, name: str) -> str:
        b = self.files[name]
        return hashlib.sha256(b).hexdigest() if name.endswith(".safetensors") else hashlib.sha1(b"blob %d\0" % len(b) + b).hexdigest()

    def entry(self, name: str) -> dict:
        e = dict(type="file", path=name, size=len(self.files[name]), oid=self.oid(name))
        if name.endswith(".safetensors"):  # Git LFS has them
            e |= dict(oid="0" * 40, lfs=dict(oid=self.oid(name), size=e["size"], pointerSize=134))
        return e

    def answer(self, body: bytes, headers: dict[str, str] | None = None) -> None:
        first, last = 0, len(body) - 1
        if asked := self.headers.get("Range"):
            a, _, b = asked.removeprefix("bytes=").partition("-")
            first, last = int(a), min(int(b or last), last)
        self.send_response(206 if asked else 200)
        if asked:
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(body)}")
        for key, value in dict(headers or {}, **{"Accept-Ranges": "bytes", "Content-Length": str(last + 1 - first)}).items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body[first : last + 1])


def logits(directory: str):
    """Of a directory, or of a name in the Hugging Face cache."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
    ids = AutoTokenizer.from_pretrained(directory)("hello world")["input_ids"]
    with torch.no_grad():
        return ids, model(torch.tensor([ids])).logits.numpy()


def equal(name: str) -> None:
    ids, got = logits(name)
    wanted, want = logits(str(TESTDATA / SMALL))
    common.same(ids, wanted, "tokens")
    common.near(got, want, 0, "logits")


def check_cache(work: Path) -> dict[str, Callable[[], None]]:
    """The Hugging Face cache of run.py, which transformers of this process read the name of when it was imported."""
    Hub.files = {p.name: p.read_bytes() for p in (TESTDATA / SMALL).iterdir() if p.is_file()}

    def load() -> None:
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            env = dict(HF_ENDPOINT=f"http://127.0.0.1:{server.server_port}", TENSORFS_CACHE=str(work / "cache"), HF_HUB_OFFLINE="")
            assert "Hugging Face cache" in tensorfs("fetch", "hf:acme/tiny", **env)
        finally:
            server.shutdown()

    def exported() -> None:
        tensorfs("export", "--to-hf-cache", "acme/made", TESTDATA / SMALL)
        equal("acme/made")

    def of_gguf() -> None:
        file = work / "tiny.gguf"
        with file.open("wb") as f:
            subprocess.run([TENSORFS, "cat", TESTDATA / SMALL, "gguf/model.gguf"], stdout=f, check=True)
        tensorfs("export", "--to-hf-cache", "acme/gguf", file)
        equal("acme/gguf")

    return {"load": load, "fetch": lambda: equal("acme/tiny"), "--to-hf-cache": exported, "--to-hf-cache of GGUF": of_gguf}


def report(program: str, name: str, source: str, checks: dict[str, Callable[[], None]]) -> None:
    only = [part for part in os.environ.get("ONLY", "").split("/") if part]
    if [name, "out", source, program][: len(only)] != only:
        return
    case = common.Case(name, "out", source, TESTDATA, TESTDATA)
    common.run(case, program, checks, TESTDATA / SMALL)


def main() -> None:
    program = sys.argv[1]
    with tempfile.TemporaryDirectory(prefix="tensorfs-stores-") as directory:
        work = Path(directory)
        if program != "ollama":
            report(program, "qwen2", "hub", check_cache(work))
        elif not Path(OLLAMA).exists():
            common.tell("all", "out", "hf", program, skipped="Ollama was not built: setup said why")
        else:
            with ollama_server(work) as env:
                for model, flags in MODELS:
                    report(program, Path(model).name, flags[1] if flags else "hf", check_ollama(env, work, model, flags))


if __name__ == "__main__":
    main()
