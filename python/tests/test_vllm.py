"""vLLM's load format tensorfs: what it generates is what it generates of the same model as a plain directory."""

import json
import os
import subprocess
import zipfile

import pytest
from conftest import DATA

import tensorfs
from tensorfs import vllm

MODEL = DATA / "whole-gguf/llama-spm-json"  # its heads have a width that vLLM's kernels for processors know
GENERATE = """
import json, sys
if __name__ == "__main__":
    from vllm import LLM, SamplingParams, TokensPrompt
    llm = LLM(model=sys.argv[1], load_format=sys.argv[2], dtype="float32", max_model_len=64, enforce_eager=True, max_num_seqs=2)
    (answer,) = llm.generate(TokensPrompt(prompt_token_ids=[1, 5, 9, 12, 7]), SamplingParams(temperature=0, max_tokens=8, ignore_eos=True, logprobs=5))
    (said,) = answer.outputs
    print(json.dumps([list(said.token_ids), [{str(k): v.logprob for k, v in step.items()} for step in said.logprobs]]))
"""


@pytest.fixture(scope="module")
def gguf(tmp_path_factory):
    path = tmp_path_factory.mktemp("vllm") / "model.gguf"
    with path.open("wb") as f:
        subprocess.run([os.environ["TENSORFS_PROGRAM"], "cat", "--gguf-type", "q8_0", MODEL, "gguf/model.gguf"], stdout=f, check=True)
    return path


def test_files(gguf, tmp_path):
    vllm.files(gguf, tmp_path / "made")
    made = {p.name for p in (tmp_path / "made").iterdir()}
    assert {"config.json", "tokenizer.json", vllm.NOTE} <= made and not any(name.endswith(".safetensors") for name in made)
    m = tensorfs.open(gguf)
    for name in made - {vllm.NOTE}:
        assert (tmp_path / "made" / name).read_bytes() == m.files["hf/" + name].read()
    assert vllm.source(str(tmp_path / "made"), {}) == str(gguf)
    assert vllm.source(str(tmp_path / "made"), {"model": "other"}) == "other"
    assert vllm.source(str(tmp_path), None) == str(tmp_path)
    with pytest.raises(ValueError, match="'modle'"):
        vllm.source(str(tmp_path), {"modle": "x"})


@pytest.mark.skipif("TENSORFS_VLLM" not in os.environ or "TENSORFS_WHEEL" not in os.environ, reason="vLLM is tested by scripts/test programs")
def test_generates_the_same(gguf, exported, tmp_path):
    with zipfile.ZipFile(os.environ["TENSORFS_WHEEL"]) as z:
        z.extractall(tmp_path / "installed")
    env = {k: v for k, v in os.environ.items() if not k.startswith("TENSORFS") and k != "PYTHONDONTWRITEBYTECODE"}
    env |= dict(PYTHONPATH=str(tmp_path / "installed"), HOME=str(tmp_path), HF_HUB_OFFLINE="1", OMP_NUM_THREADS="1")
    env |= dict(VLLM_NO_USAGE_STATS="1", VLLM_CPU_KVCACHE_SPACE="1", VLLM_ENABLE_V1_MULTIPROCESSING="0")
    (tmp_path / "generate.py").write_text(GENERATE)

    def generated(directory, load_format: str):
        command = [os.environ["TENSORFS_VLLM"], tmp_path / "generate.py", directory, load_format]
        done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=tmp_path)
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads(next(line for line in done.stdout.splitlines() if line.startswith("[[")))

    subprocess.run([os.environ["TENSORFS_VLLM"], "-m", "tensorfs.vllm", gguf, tmp_path / "made"], env=env, check=True)
    want = generated(exported(gguf) / "hf", "safetensors")
    assert generated(tmp_path / "made", "tensorfs") == want
    assert len({json.dumps(step) for step in want[1]}) > 1
