"""The models of these tests: what each is, in the words of transformers 4 and of its published relatives."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import vocabularies as v
from tokenizers import Tokenizer

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
LLAMA_CHAT = (
    "{{ bos_token }}{% for m in messages %}<|start_header_id|>{{ m['role'] }}<|end_header_id|>\n\n"
    "{{ m['content'] }}<|eot_id|>{% endfor %}"
    "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
)
GEMMA_CHAT = (
    "{{ bos_token }}{% for m in messages %}<start_of_turn>{{ m['role'] }}\n{{ m['content'] }}<end_of_turn>\n"
    "{% endfor %}{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)
PHI_CHAT = (
    "{% for m in messages %}<|{{ m['role'] }}|>\n{{ m['content'] }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)


@dataclass
class Recipe:
    config: str  # the class of transformers
    model: str
    sizes: dict[str, Any]
    vocabulary: Callable[[], Tokenizer]
    tokens: dict[str, str]  # bos_token, eos_token, ... of tokenizer_config.json
    ends: list[str] = field(default_factory=list)  # every token that ends a generation, the main one first
    sampling: dict[str, Any] = field(default_factory=dict)
    tokenizer: str = "PreTrainedTokenizerFast"  # the class that the published ones name
    chat: str | None = None
    pooling: str | None = None  # of embedding models
    bare: bool = False  # tensors without "model.", as Qwen3-Embedding is published
    mlx: bool = True  # mlx-lm has the class


SMALL = dict(hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2)
QWEN = dict(
    vocabulary=lambda: v.byte_level(v.QWEN, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], nfc=True),
    tokens=dict(eos_token="<|im_end|>", pad_token="<|endoftext|>"),
    ends=["<|im_end|>", "<|endoftext|>"],
    tokenizer="Qwen2Tokenizer",
    chat=CHATML,
)
QWEN3 = dict(do_sample=True, temperature=0.6, top_k=20, top_p=0.95)
GEMMA = dict(
    vocabulary=lambda: v.sentencepiece(
        ["<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>"], [], "<bos>", prefix=False
    ),
    tokens=dict(bos_token="<bos>", eos_token="<eos>", unk_token="<unk>", pad_token="<pad>"),
    ends=["<eos>", "<end_of_turn>"],
    chat=GEMMA_CHAT,
)
BERT = dict(
    config="BertConfig",
    model="BertModel",
    sizes=dict(
        hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=96
    ),
    vocabulary=v.word_piece,
    tokens={f"{k}_token": f"[{k.upper()}]" for k in ("pad", "unk", "cls", "sep", "mask")},
    tokenizer="BertTokenizer",
    mlx=False,
)

RECIPES: dict[str, Recipe] = {
    "Llama-3.2": Recipe(
        config="LlamaConfig",
        model="LlamaForCausalLM",
        sizes=SMALL
        | dict(
            head_dim=16,
            max_position_embeddings=2048,
            rope_theta=500000.0,
            rope_scaling=dict(
                rope_type="llama3",
                factor=32.0,
                low_freq_factor=1.0,
                high_freq_factor=4.0,
                original_max_position_embeddings=64,
            ),
            rms_norm_eps=1e-5,
            tie_word_embeddings=True,
        ),
        vocabulary=lambda: v.around(
            v.byte_level(
                v.LLAMA3,
                ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>"]
                + ["<|eom_id|>", "<|eot_id|>"],
            ),
            before="<|begin_of_text|>",
        ),
        tokens=dict(bos_token="<|begin_of_text|>", eos_token="<|eot_id|>"),
        ends=["<|end_of_text|>", "<|eom_id|>", "<|eot_id|>"],
        sampling=dict(do_sample=True, temperature=0.6, top_p=0.9),
        chat=LLAMA_CHAT,
    ),
    "Qwen2.5": Recipe(
        config="Qwen2Config",
        model="Qwen2ForCausalLM",
        sizes=SMALL | dict(max_position_embeddings=512, rope_theta=1e6, rms_norm_eps=1e-6, tie_word_embeddings=True),
        sampling=dict(do_sample=True, repetition_penalty=1.1, temperature=0.7, top_k=20, top_p=0.8),
        **QWEN,
    ),
    "Qwen3": Recipe(
        config="Qwen3Config",
        model="Qwen3ForCausalLM",
        sizes=SMALL | dict(head_dim=32, max_position_embeddings=512, rope_theta=1e6),
        sampling=QWEN3,
        **QWEN,
    ),
    "Qwen3-MoE": Recipe(
        config="Qwen3MoeConfig",
        model="Qwen3MoeForCausalLM",
        sizes=SMALL
        | dict(
            head_dim=16,
            max_position_embeddings=512,
            rope_theta=1e6,
            num_experts=4,
            num_experts_per_tok=2,
            moe_intermediate_size=64,
            norm_topk_prob=True,
        ),
        sampling=QWEN3,
        **QWEN,
    ),
    "Gemma-2": Recipe(
        config="Gemma2Config",
        model="Gemma2ForCausalLM",
        sizes=SMALL | dict(head_dim=32, query_pre_attn_scalar=32, max_position_embeddings=512, sliding_window=64),
        **GEMMA,
    ),
    "Gemma-3": Recipe(
        config="Gemma3TextConfig",
        model="Gemma3ForCausalLM",
        sizes=SMALL
        | dict(
            num_hidden_layers=6,
            head_dim=32,
            query_pre_attn_scalar=32,
            max_position_embeddings=512,
            sliding_window=32,
            rope_theta=1e6,
            rope_local_base_freq=1e4,
        ),
        sampling=dict(do_sample=True, top_k=64, top_p=0.95),
        **GEMMA,
    ),
    "Phi-3": Recipe(
        config="Phi3Config",
        model="Phi3ForCausalLM",
        sizes=SMALL
        | dict(
            max_position_embeddings=512,
            original_max_position_embeddings=16,
            rope_scaling=dict(
                type="longrope",
                short_factor=[1.05, 1.05, 1.22, 1.33, 1.48, 1.56, 1.61, 1.8],
                long_factor=[2.77, 4.99, 8.33, 10.2, 14.1, 17.7, 18.0, 20.8],
            ),
            pad_token_id=0,
        ),
        vocabulary=lambda: v.sentencepiece(
            ["<unk>", "<s>", "</s>"], ["<|endoftext|>", "<|assistant|>", "<|user|>", "<|end|>"], "", prefix=True
        ),
        tokens=dict(bos_token="<s>", eos_token="<|endoftext|>", unk_token="<unk>", pad_token="<|endoftext|>"),
        ends=["<|endoftext|>", "<|end|>", "</s>"],
        chat=PHI_CHAT,
    ),
    "gpt-oss": Recipe(
        config="GptOssConfig",
        model="GptOssForCausalLM",
        sizes=SMALL
        | dict(
            head_dim=16,
            intermediate_size=64,
            num_local_experts=4,
            num_experts_per_tok=2,
            sliding_window=32,
            initial_context_length=64,
            max_position_embeddings=2048,
            rope_theta=150000.0,
            rope_scaling=dict(
                rope_type="yarn",
                factor=32.0,
                beta_fast=32.0,
                beta_slow=1.0,
                truncate=False,
                original_max_position_embeddings=64,
            ),
        ),
        vocabulary=lambda: v.byte_level(
            v.GPT_OSS,
            ["<|startoftext|>", "<|endoftext|>", "<|return|>", "<|constrain|>", "<|channel|>", "<|start|>"]
            + ["<|end|>", "<|message|>", "<|call|>"],
        ),
        tokens=dict(bos_token="<|startoftext|>", eos_token="<|return|>", pad_token="<|endoftext|>"),
        ends=["<|return|>", "<|endoftext|>", "<|call|>"],
    ),
    "StarCoder2": Recipe(
        config="Starcoder2Config",
        model="Starcoder2ForCausalLM",
        sizes=SMALL | dict(max_position_embeddings=512, rope_theta=1e5, norm_epsilon=1e-5),
        vocabulary=lambda: v.byte_level(None, [], first=["<|endoftext|>"]),
        tokens=dict(bos_token="<|endoftext|>", eos_token="<|endoftext|>", unk_token="<|endoftext|>"),
        ends=["<|endoftext|>"],
    ),
    "BERT-cls": Recipe(pooling="cls", **BERT),
    "BERT-mean": Recipe(pooling="mean", **BERT),
    "Qwen3-Embedding": Recipe(
        config="Qwen3Config",
        model="Qwen3ForCausalLM",
        sizes=SMALL | dict(head_dim=16, max_position_embeddings=512, rope_theta=1e6, tie_word_embeddings=True),
        pooling="lasttoken",
        bare=True,
        **QWEN
        | dict(vocabulary=lambda: v.around(QWEN["vocabulary"](), after="<|endoftext|>"), ends=["<|im_end|>"], chat=None),
    ),
}
