"""gguf/ of files that Ollama's own converter wrote, in llama.cpp, by xllamacpp: from the same tokens it goes on as from the file of
llama.cpp's converter. A file that says the same of its vocabulary cuts texts alike, too."""

import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

import common
import dialects

PROGRAM = "ollama-convert"
COUNT = 16
# Why texts of these are not cut: the file of Ollama's converter says something else of the vocabulary, which a published model does not have.
NOT_CUT = {
    "gpt-oss": "the toy has not the numbers that special tokens of the model have",
    "gemma3": "the toy's tokenizer.model has other tokens than its tokenizer_config.json",
    "gemma3-vl": "the toy's tokenizer.model has other tokens than its tokenizer_config.json",
    "gemma3n": "the toy's tokenizer.model has other tokens than its tokenizer_config.json",
    "laguna": "Ollama's converter does not know the toy's pre-tokenizer",
    "lfm2": "Ollama's converter does not know the toy's pre-tokenizer",
    "lfm2-vl": "Ollama's converter does not know the toy's pre-tokenizer",
    "qwen3.5": "Ollama's converter does not know the toy's pre-tokenizer",
    "olmo3": "Ollama's converter does not know the toy's pre-tokenizer",
}


def ask(file: str) -> dict:
    """What llama.cpp makes of a file: tokens of texts, and those that follow a prompt of tokens."""
    import xllamacpp

    p = xllamacpp.CommonParams()
    p.model.path = file
    p.n_ctx, p.n_parallel, p.warmup, p.fit_params, p.verbosity = 512, 1, False, False, 0
    p.cpuparams.n_threads = p.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(p)

    def post(path: str, **body: object) -> dict:
        request = urllib.request.Request(server.listening_address + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    prompt = [(i * 37 + 11) % 300 + 10 for i in range(20)]
    got = post("/completion", prompt=prompt, temperature=0, cache_prompt=False, n_predict=COUNT, return_tokens=True, ignore_eos=True, n_probs=1)
    best = [t["top_logprobs"][0]["logprob"] for t in got.get("completion_probabilities", ())]
    return dict(tokens=got["tokens"], best=best, texts=[post("/tokenize", content=text, add_special=False)["tokens"] for text in common.TEXTS])


def asked(file: Path) -> dict:
    """In a process of its own: llama.cpp ends with the first model that it does not like."""
    done = subprocess.run([sys.executable, __file__, "--ask", file], capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    assert lines, f"llama.cpp does not load {file.name}: {' '.join((done.stderr + done.stdout).split())[-300:]}"
    return json.loads(lines[-1])


def cat(model: Path, file: Path) -> None:
    with file.open("wb") as f:
        done = subprocess.run([os.environ["TENSORFS"], "cat", model, "gguf/model.gguf"], stdout=f, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stderr


def check(case: str, work: Path) -> None:
    answers: dict[str, dict] = {}
    source = dialects.directory(case, work)
    try:
        cat(source, work / "theirs.gguf")
        answers["theirs"] = asked(work / "theirs.gguf")
    except AssertionError as e:
        common.tell(case, "any", "dialect", PROGRAM, skipped=f"the file of llama.cpp's converter: {e}"[:300])
        return

    def load() -> None:
        dialects.convert(case, source, work / "ollama.gguf")
        cat(work / "ollama.gguf", work / "ours.gguf")
        answers["ours"] = asked(work / "ours.gguf")

    def tokens() -> None:
        ours, theirs = answers["ours"], answers["theirs"]
        common.same(ours["tokens"], theirs["tokens"], "the tokens")
        assert len(ours["tokens"]) == COUNT, f"{len(ours['tokens'])} tokens"
        off = max((abs(a - b) for a, b in zip(ours["best"], theirs["best"])), default=0)
        assert off <= 0.1, f"logarithms of probabilities are off by {off:.3g}"

    def texts() -> None:
        common.same(answers["ours"]["texts"], answers["theirs"]["texts"], "the tokens of texts")

    checks = dict(load=load, tokens=tokens) | ({} if case in NOT_CUT else dict(texts=texts))
    results: dict[str, str] = {}
    for what, step in checks.items():
        try:
            step()
            results[what] = ""
        except Exception as e:  # whatever a program raises is a result
            results[what] = " ".join(f"{type(e).__name__}: {e}".split())[:400]
            if what == "load":
                break
    common.tell(case, "any", "dialect", PROGRAM, checks=results)


def main() -> None:
    if sys.argv[1] == "--ask":
        print(json.dumps(ask(sys.argv[2])), flush=True)
        os._exit(0)  # whatever threads of the server do
    only = os.environ.get("ONLY", "").split("/")[0]
    for case in dialects.CASES:
        if only in ("", case):
            with tempfile.TemporaryDirectory() as work:
                check(case, Path(work))


if __name__ == "__main__":
    main()
