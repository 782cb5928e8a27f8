"""llama-server --models-dir on a mount of several libraries: `tensorfs mount --as gguf`.

It lists every model, of a GGUF file, a directory of Hugging Face, one of MLX and Ollama's store, loads each when it is asked for, and completes
a text as it does with plain copies of the same files.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import common

TESTDATA = Path(__file__).resolve().parents[2] / "testdata"
TENSORFS, SERVER = os.environ["TENSORFS"], os.environ["LLAMA_SERVER"]
# Names in the library, and what their models are made of.
MODELS = {"gguf--stored": "whole-gguf/llama3", "hf--qwen2": "whole-gguf/qwen2", "mlx--llama3": "whole-gguf/mlx-llama3-4bit", "ours--latest": "whole-gguf/gemma3"}
PATIENCE = 120  # seconds until a server has started, or a model


def tensorfs(*words: str | Path, **how) -> subprocess.CompletedProcess:
    done = subprocess.run([TENSORFS, *map(str, words)], stderr=subprocess.PIPE, text=True, timeout=PATIENCE, **how)
    assert done.returncode == 0, done.stderr.strip()
    return done


def sources(work: Path) -> list[str | Path]:
    """Libraries of four forms."""
    for name in ("gguf", "hf", "mlx"):
        (work / name).mkdir()
    with (work / "gguf/stored.gguf").open("w") as f:
        tensorfs("cat", TESTDATA / MODELS["gguf--stored"], "gguf/model.gguf", stdout=f)
    for name in ("hf--qwen2", "mlx--llama3"):
        shutil.copytree(TESTDATA / MODELS[name], work / name.replace("--", "/", 1))
    os.environ["OLLAMA_MODELS"] = str(work / "ollama")
    tensorfs("export", "--to-ollama", "ours", TESTDATA / MODELS["ours--latest"], stdout=subprocess.DEVNULL)
    return [work, "ollama:"]


@contextmanager
def mounted(libraries: list[str | Path], at: Path) -> Iterator[Path]:
    tensorfs("mount", "--as", "gguf", *libraries, at)
    try:
        yield at
    finally:
        tensorfs("umount", at)


@contextmanager
def server(models: Path, log: Path) -> Iterator[Callable[..., dict]]:
    """llama-server on a directory of models; what it yields asks it."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]

    def ask(path: str, **question: object) -> dict:
        data = json.dumps(question).encode() if question else None
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=PATIENCE) as reply:
            return json.load(reply)

    command = [SERVER, "--models-dir", models, "--host", "127.0.0.1", "--port", str(port), "--models-max", "1", "-c", "64", "-t", "1"]
    own = os.environ | dict(HOME=str(log.parent), HF_HOME=str(log.parent), LLAMA_CACHE=str(log.parent / "cache"))  # it lists what it downloaded too
    with log.open("w") as said:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, env=own)
    try:
        end = time.monotonic() + PATIENCE
        while True:
            try:
                ask("/health")
                break
            except OSError:
                assert process.poll() is None and time.monotonic() < end, log.read_text(errors="replace")[-400:]
                time.sleep(0.2)
        yield ask
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def complete(ask: Callable[..., dict], name: str) -> str:
    return ask("/v1/completions", model=name, prompt="abc", max_tokens=8, temperature=0, seed=1)["choices"][0]["text"]


def main() -> None:
    program = sys.argv[1]
    only = [part for part in os.environ.get("ONLY", "").split("/") if part]
    if ["library", "out", "models-dir", program][: len(only)] != only:
        return
    if not shutil.which(SERVER):
        why = "there is no llama-server: put one on PATH, or let scripts/programs/setup --llama-server build it (some 15 minutes of a processor)"
        common.tell("library", "out", "models-dir", program, skipped=why)
        return
    with tempfile.TemporaryDirectory(prefix="tensorfs-server-") as directory:
        work = Path(directory)
        (work / "models").mkdir()
        libraries = sources(work / "models")
        plain = work / "plain"
        plain.mkdir()
        answers: dict[str, str] = {}
        with mounted(libraries, work / "mount") as at:
            for file in at.glob("*.gguf"):
                shutil.copy(file, plain)
            with server(at, work / "log") as ask:

                def listed() -> None:
                    common.same(sorted(m["id"] for m in ask("/v1/models")["data"]), sorted(MODELS), "models")

                def completes(name: str) -> Callable[[], None]:
                    def check() -> None:
                        answers[name] = complete(ask, name)
                        assert answers[name], "it said nothing"

                    return check

                def as_plain() -> None:
                    with server(plain, work / "plain.log") as copies:
                        common.same(answers, {name: complete(copies, name) for name in MODELS}, "texts")

                case = common.Case("library", "out", "models-dir", TESTDATA, TESTDATA)
                checks = {"list": listed} | {name: completes(name) for name in MODELS} | {"as plain files": as_plain}
                common.run(case, program, checks, TESTDATA)


if __name__ == "__main__":
    main()
