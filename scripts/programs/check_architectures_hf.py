"""hf/ of the models of testdata/architectures and testdata/published in transformers 5: of the directory as it is published, of the GGUF file that it
becomes, and of that with the file of its vision tower beside it. The logits are those of the directory itself, and the tokens
that follow a prompt those of llama.cpp."""

import json
import os
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import common
import numpy as np
import torch
import transformers
from common import Case

PROGRAM = "transformers-5"
# Where more than nothing may differ: multipliers are worked into the weights of Falcon-H1's GGUF file, which rounds them.
# A reranker's two answers are two rows of a matrix of all tokens, and are summed in another order.
# 8-bit floats of DeepSeek V4 become Q8_0 in its GGUF file, after which routers of a toy choose other experts.
ROUNDED = {("deepseek4", "gguf"): 1.0, ("falcon-h1", "gguf"): 5e-3, ("qwen3-reranker", "gguf"): 1e-6, ("qwen3-reranker-untied", "gguf"): 1e-6}
# Where llama.cpp goes on otherwise than transformers from the file that its own converter writes: two tokens are nearly equal in the first seven,
# and its halves decide; of those up to mellum it computes other numbers of models as small as these, whose layers it knows by their number or
# width. transformers 5.23 turns the heads of dbrx with a base of 10000, whatever the release says, chooses the experts of phimoe by a rule
# of its own, and turns the halves of hy4's heads, where llama.cpp turns pairs of neighbours, of the same tensors.
UNLIKE_LLAMA = (
    "audio-flamingo3 gemma4-moe gemma4-unified glm4moe hy3 step-vl voxtral exaone4 exaone4.5 gemma4-shared laguna mellum dbrx phimoe hy4".split()
)
# Whether the tokens of a picture see each other is not in a GGUF file: llama.cpp decides by the width of Gemma 4, which is not a release's here,
# and hf/ says what it does. gguf/ has a note.
BY_WIDTH = ("gemma4", "gemma4-shared", "gemma4-saved-by-transformers5")
# A GGUF file loses something that changes the answers: gguf/ has a note.
LOST = ("gemma2-untied", "microsoft--Phi-3.5-MoE-instruct")
# Cases that cannot be made, and why.
UNMADE = {
    ("Alibaba-NLP--gte-Qwen2-7B-instruct", "gguf"): "transformers 4 would not obey is_causal, so there is no hf/",
    ("nvidia--Gemma-4-31B-IT-NVFP4", "hf"): "the golden model that the toy is like has no tower of the class",
}
# GGUF has no pooler of BERT and its relatives, and pooled embeddings do not need one; nor heads that predict masked tokens.
UNSTORED = ("pooler.dense.", "vocab_", "model.vqmodel.")  # Janus's painter is not in the toy
# What transformers says of directories that only the code beside a release loads.
UNLOADED = ("Transformers does not recognize this architecture", "Unrecognized model in", "attn_implementation", "ignore_mismatched_sizes", "contains custom code")
LOADERS = (  # by the end of the class that config.json names; the last one has no head
    ("ForSequenceClassification", transformers.AutoModelForSequenceClassification),
    ("T5ForConditionalGeneration", transformers.AutoModelForSeq2SeqLM),
    ("T5WithLMHeadModel", transformers.AutoModelForSeq2SeqLM),
    ("T5EncoderModel", transformers.AutoModelForTextEncoding),
    ("ForConditionalGeneration", transformers.AutoModelForImageTextToText),
    ("ForCausalLM", transformers.AutoModelForCausalLM),
    ("", transformers.AutoModel),
)


# Models of several parts that transformers loads whole, where the part that reads and answers has a class of its own.
PARTS = {
    "Qwen2_5OmniModel": "Qwen2_5OmniThinkerForConditionalGeneration",
    "Qwen3OmniMoeForConditionalGeneration": "Qwen3OmniMoeThinkerForConditionalGeneration",
}


def loader(directory: Path):
    name = json.loads((directory / "config.json").read_text())["architectures"][0]
    if part := PARTS.get(name):
        return getattr(transformers, part)
    kind = next(kind for end, kind in LOADERS if name.endswith(end))
    if name.endswith("ForConditionalGeneration"):  # of pictures, or of sounds
        return getattr(transformers, name, kind)
    return kind


class Loaded:
    """A model computing in F32, in which all stored numbers are exact."""

    def __init__(self, directory: Path, kind):
        self.model, self.report = kind.from_pretrained(directory, output_loading_info=True, dtype=torch.float32)
        self.model = self.model.eval().float()

    def states(self, ids: list[int], **more: torch.Tensor) -> np.ndarray:
        """The logits, or of a model without a head the states."""
        if self.model.config.is_encoder_decoder and hasattr(self.model, "decoder"):
            more["decoder_input_ids"] = torch.tensor([[self.model.config.decoder_start_token_id, *ids[:3]]])
        with torch.no_grad():
            out = self.model(input_ids=torch.tensor([ids]), **more)
        return (out.logits if "logits" in out else out.last_hidden_state)[0].numpy()


@cache
def published(directory: Path) -> Loaded:
    loaded = Loaded(directory, loader(directory))
    name = json.loads((directory / "config.json").read_text())["architectures"][0]
    if loaded.report["missing_keys"] and not hasattr(transformers, name):  # Grok 2 has the model_type of GIT, which reads pictures
        raise ValueError(f"Unrecognized model in {directory}: {name} is not {type(loaded.model).__name__}")
    return loaded


# The inputs of a picture in patches of a size, and how many tokens it takes.


def pixels(*shape: int) -> torch.Tensor:
    return torch.randint(-64, 65, shape, generator=torch.Generator().manual_seed(7)) / 64


def square(size: int, tokens: int) -> tuple[dict, int]:
    return dict(pixel_values=pixels(1, 3, size, size)), tokens


def patches(size: int) -> tuple[dict, int]:
    """A picture of 4 x 4 patches, each of them twice in time, of which 2 x 2 are one token."""
    return dict(pixel_values=pixels(16, 3 * 2 * size * size), image_grid_thw=torch.tensor([[1, 4, 4]])), 4


def lfm2() -> tuple[dict, int]:
    rows = dict(pixel_values=pixels(1, 16, 3 * 16 * 16), pixel_attention_mask=torch.ones(1, 16, dtype=torch.long))
    return rows | dict(spatial_shapes=torch.tensor([[4, 4]])), 4


def gemma4(patch: int) -> tuple[dict, int]:
    at = torch.tensor([[(x, y) for y in range(6) for x in range(6)]])
    return dict(pixel_values=pixels(1, 36, 3 * patch * patch), image_position_ids=at), 4


PICTURES: dict[str, Callable[[int], tuple[dict, int]]] = {
    "gemma3": lambda _: square(56, 4),
    "gemma4": gemma4,
    "glm4v": patches,
    "lfm2_vl": lambda _: lfm2(),
    "llama4": lambda _: square(56, 4),
    "mistral3": lambda _: (square(64, 4)[0] | dict(image_sizes=torch.tensor([[64, 64]])), 4),
    "qwen2_vl": patches,
    "qwen2_5_vl": patches,
    "qwen3_vl": patches,
    "qwen3_vl_moe": patches,
    "qwen3_5": patches,
    "qwen3_5_moe": patches,
    "smolvlm": lambda _: (dict(pixel_values=pixels(1, 1, 3, 56, 56)), 4),
}


def shown(model: Loaded, prompt: list[int], token: int) -> np.ndarray:
    """What comes after a picture with a text around it. The token that stands for one is told: the vocabularies of these models
    are too small to have it."""
    config = model.model.config
    config.image_token_id = token
    inputs, tokens = PICTURES[config.model_type](config.vision_config.patch_size)
    ids = [*prompt, *[token] * tokens, *prompt]
    kinds = torch.tensor([[int(i == token) for i in ids]])
    if config.model_type in ("gemma3", "gemma4"):
        inputs["token_type_ids" if config.model_type == "gemma3" else "mm_token_type_ids"] = kinds
    elif "image_grid_thw" in inputs:
        inputs["mm_token_type_ids"] = kinds
    return model.states(ids, **inputs)


def beyond(name: str, layers: int) -> bool:
    """Whether a tensor is of a layer that predicts further tokens, of which classes know the number that the release has."""
    return bool(m := re.search(r"\.layers\.(\d+)\.", name)) and int(m[1]) >= layers > 0


def check(case: Case, want: dict, directory: Path) -> None:
    hf = case.seen / "hf"
    prompt = want.get("prompt") or [5, 6, 7, 8]
    seen: list[Loaded] = []
    try:
        original, why = published(directory), ""
    except (ValueError, RuntimeError) as e:
        assert any(said in str(e) for said in UNLOADED), e
        original, why = None, "transformers does not have the class"
    except ImportError:
        original, why = None, "transformers wants timm and torchvision for the class"

    def load() -> None:
        headless = original is not None and loader(directory) is transformers.AutoModel
        seen.append(Loaded(hf, transformers.AutoModel if headless else loader(hf)))
        layers = getattr(seen[0].model.config.get_text_config(), "num_hidden_layers", 0)
        report = {k: [name for name in sorted(v) if not name.startswith(UNSTORED) and not beyond(name, layers)] for k, v in seen[0].report.items() if v}
        wrong = {k: v for k, v in report.items() if v}
        assert not wrong, f"the load report is not clean: {wrong}"

    def logits() -> None:
        want = original.states(prompt)
        if want.ndim > 1 and type(seen[0].model).__name__.endswith("ForSequenceClassification"):  # a reranker that was a decoder
            labels = seen[0].model.config.id2label
            ids = transformers.AutoTokenizer.from_pretrained(hf).convert_tokens_to_ids([labels[i] for i in sorted(labels)])
            want = want[-1, ids]
        if case.source != "hf" and case.name in LOST:
            notes = json.loads((case.seen.parents[1] / "hf" / case.name / "gguf/tensorfs.json").read_text())["notes"]
            assert any(note.endswith("answers differ") for note in notes), notes
            return
        common.near(seen[0].states(prompt), want, ROUNDED.get((case.name, case.source), 0), "logits")

    def picture() -> None:
        token = original.model.config.image_token_id
        if case.name in BY_WIDTH:
            original.model.config.get_text_config().use_bidirectional_attention = seen[0].model.config.get_text_config().use_bidirectional_attention
        want, flat = shown(original, prompt, token), original.states([*prompt, *prompt])
        common.near(shown(seen[0], prompt, token), want, 0, "logits after a picture")
        assert (want[-1] != flat[-1]).any(), "the picture does not count"

    def tokens() -> None:
        ids = list(prompt)
        for _ in want["greedy"]:
            ids.append(int(seen[0].states(ids)[-1].argmax()))
        common.same(ids[len(prompt) :], want["greedy"], "tokens")

    try:
        model = json.loads((hf / "config.json").read_text()).get("model_type", "")
        transformers.AutoConfig.for_model(model)
        unread = original is None and case.source == "hf"
    except FileNotFoundError:  # it is absent, which load tells
        unread = False
    except ValueError:
        unread = True
    if unread:
        common.tell(case.name, case.form, case.source, PROGRAM, skipped=why)
        return
    checks: dict[str, Callable[[], None]] = dict(load=load)
    if original:
        checks["logits"] = logits
        if case.source == "tower" and original.model.config.model_type in PICTURES:
            checks["picture"] = picture
    # llama.cpp reads the GGUF file.
    if want.get("greedy") and case.name not in UNLIKE_LLAMA and (case.source == "gguf" or case.name != "deepseek4"):
        checks["tokens"] = tokens
    common.run(case, PROGRAM, checks, hf)


def main() -> None:
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    expected = Path(os.environ["EXPECTED"])
    for case in common.golden(PROGRAM, ("hf", "gguf", "tower"), forms=("any", "published")):
        if case.source != "hf" and (absent := expected / f"{case.name}.hf.absent").exists():
            common.tell(case.name, case.form, case.source, PROGRAM, skipped=absent.read_text())
            continue
        if why := UNMADE.get((case.name, case.source)):
            common.tell(case.name, case.form, case.source, PROGRAM, skipped=why)
            continue
        run = expected / f"{case.name}.run.json"
        want = json.loads(run.read_text())["llama"] if run.exists() else {}
        try:
            check(case, want, case.root / "hf" / case.name)
        except Exception as e:  # of the published directory: the other cases go on
            common.tell(case.name, case.form, case.source, PROGRAM, checks=dict(published=f"{type(e).__name__}: {e}"[:400]))


if __name__ == "__main__":
    main()
