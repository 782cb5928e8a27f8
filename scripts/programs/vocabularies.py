"""Small tokenizers of the kinds that published models have, trained here on a few lines."""

import re

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

TEXTS = [
    "The quick brown fox jumps over the lazy dog, and the dog does not mind at all.",
    "A model is a list of tensors, a tokenizer, and a few numbers that say how they belong together.",
    "She said: I'll be there at 10:45, won't you? They're late; it's 2026 already.",
    "Übermorgen fahren wir für 3 Tage nach Köln, wenn das Wetter schön bleibt.",
    "def add(a, b):\n    return a + b\n\nprint(add(1, 23))\n",
    "Le café est près de la gare. ¿Dónde está la biblioteca? 你好，世界。 Привет, мир!",
    "What is the capital of France? The capital of France is Paris.",
    "The weather is fine today. The weather was not fine yesterday. Who knows about tomorrow?",
] * 3

WORD = r"[^\r\n\p{L}\p{N}]?\p{L}+"
REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
SHORT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
LLAMA3 = rf"{SHORT}|{WORD}|\p{{N}}{{1,3}}|{REST}"
QWEN = rf"{SHORT}|{WORD}|\p{{N}}|{REST}"
GPT_OSS = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{SHORT}?|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{SHORT}?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def special(text: str) -> AddedToken:
    return AddedToken(text, special=True, normalized=False)


def byte_level(split: str | None, last: list[str], first: list[str] = [], nfc: bool = False) -> Tokenizer:
    """Byte-level BPE: GPT-2 and those after it. The end tokens stand before or after the vocabulary."""
    t = Tokenizer(models.BPE())
    if split is None:  # StarCoder 2
        steps = [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    else:
        steps = [
            pre_tokenizers.Split(Regex(split), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    t.pre_tokenizer = pre_tokenizers.Sequence(steps)
    if nfc:
        t.normalizer = normalizers.NFC()
    t.decoder = decoders.ByteLevel()
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    t.train_from_iterator(
        TEXTS,
        trainers.BpeTrainer(
            vocab_size=420, show_progress=False, initial_alphabet=alphabet, special_tokens=[special(s) for s in first]
        ),
    )
    t.add_special_tokens([special(s) for s in last])
    return t


def around(t: Tokenizer, before: str = "", after: str = "") -> Tokenizer:
    """Has the tokenizer put a token before or after a text, as the post-processors of published models do."""
    ids = [(s, t.token_to_id(s)) for s in (before, after) if s]
    one = ([before] if before else []) + ["$A"] + ([after] if after else [])
    two = one + ([before + ":1"] if before else []) + ["$B:1"] + ([after + ":1"] if after else [])
    steps = [processors.TemplateProcessing(single=one, pair=two, special_tokens=ids)]
    if isinstance(t.pre_tokenizer, pre_tokenizers.Sequence):
        steps.insert(0, processors.ByteLevel(trim_offsets=False))
    t.post_processor = processors.Sequence(steps)
    return t


def sentencepiece(first: list[str], last: list[str], bos: str, prefix: bool) -> Tokenizer:
    """BPE with bytes to fall back on, as transformers writes SentencePiece models: Llama 2, Phi-3, Gemma."""
    scheme = "always" if prefix else "never"
    learnt = Tokenizer(models.BPE())
    learnt.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme)
    learnt.train_from_iterator(TEXTS, trainers.BpeTrainer(vocab_size=200, show_progress=False))
    pieces = sorted(learnt.get_vocab().items(), key=lambda kv: kv[1])
    # A piece that is longer comes before one that is shorter only if it was learnt earlier: the order of the
    # scores of SentencePiece. Single characters have the lowest ones.
    letters = [p for p, _ in pieces if len(p) == 1]
    words = [p for p, _ in pieces if len(p) > 1]
    names = [*first, *(f"<0x{b:02X}>" for b in range(256)), *words, *letters]
    vocab = {name: i for i, name in enumerate(names)}
    merges = []
    for w in words:  # every pair of parts, as the conversion of a SentencePiece model lists them
        parts = [(w[:i], w[i:]) for i in range(1, len(w)) if w[:i] in vocab and w[i:] in vocab]
        merges += sorted(parts, key=lambda p: (vocab[p[0]], vocab[p[1]]))
    t = Tokenizer(models.BPE(vocab=vocab, merges=merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    spaces = normalizers.Replace(" ", "▁")
    back = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    if prefix:
        t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), spaces])
        t.decoder = decoders.Sequence([*back, decoders.Strip(" ", 1, 0)])
    else:
        t.normalizer = spaces
        t.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
        t.decoder = decoders.Sequence(back)
    t.add_special_tokens([special(s) for s in first + last])
    return around(t, before=bos) if bos else t


def word_piece() -> Tokenizer:
    """BERT's, of every letter and of some words: the trainer of WordPiece does not give the same one twice."""
    marks = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = sorted({w for text in TEXTS for w in re.findall(r"[a-z]{2,}", text.lower())})
    letters = sorted({c for text in TEXTS for c in text.lower() if not c.isspace()})
    names = [*marks, *letters, *("##" + c for c in letters), *words[::2]]
    t = Tokenizer(models.WordPiece(vocab={name: i for i, name in enumerate(names)}, unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer(lowercase=True)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece()
    t.add_special_tokens([special(s) for s in marks])
    ids = [(s, t.token_to_id(s)) for s in ("[CLS]", "[SEP]")]
    t.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ids
    )
    return t
