"""Options of a model: each gives the bytes that the program gives, and is refused in its words."""

import pickle
from pathlib import Path

import pytest
from conftest import DATA, program

import tensorfs

TABLES = DATA.parent / "formats/models/testdata"


def lines(table):
    text = (TABLES / table).read_text().replace("TESTDATA", str(DATA))
    return [line.split("\t") for line in text.splitlines() if not line.startswith("#")]


def keywords(options):
    """The tables' options work like open's."""
    given = {}
    for option in options.split():
        flag, has_value, value = option.partition("=")
        name = flag.replace("-", "_")
        if name in ("pure", "requantise", "dequantise"):
            given[name] = value in ("", "true")
        elif name == "set" and "=" in value:
            key, _, text = value.partition("=")
            given.setdefault(name, {})[key] = Path(text[1:]) if text.startswith("@") else text
        elif name in ("tensor_type", "unset", "set"):
            given.setdefault(name, []).append(value)
        elif name in ("mlx_bits", "mlx_group") and value.isdigit():
            given[name] = int(value)
        else:
            given[name] = value if has_value else True
    return given


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pair")
    with tensorfs.open(DATA / "architectures/gemma3-vl") as m:
        for path in ("model.gguf", "away/mmproj.gguf", "beside/model.gguf", "beside/mmproj.gguf"):
            (folder / path).parent.mkdir(exist_ok=True)
            (folder / path).write_bytes(m.files["gguf/" + Path(path).name].read())
    return folder


@pytest.mark.parametrize("model, options, file", lines("options.tsv"))
def test_option(model, options, file, pair, tmp_path):
    model, options = model.replace("PAIR", str(pair)), options.replace("PAIR", str(pair))
    program("export", model, tmp_path / "tree", file, *("--" + o for o in options.split()))
    want = (tmp_path / "tree" / file).read_bytes()
    m = tensorfs.open(model, **keywords(options))
    assert m.files[file].read() == want
    assert pickle.loads(pickle.dumps(m)).files[file].read() == want


@pytest.mark.parametrize("kind, options, message", lines("wrong.tsv"))
def test_wrong(kind, options, message):
    with pytest.raises(tensorfs.Invalid if kind == "option" else tensorfs.Error) as raised:
        tensorfs.open(DATA / "gguf/llama-xs.f16.gguf", **keywords(options))
    assert str(raised.value).startswith(message)


def test_spellings():
    f16 = DATA / "gguf/llama-xs.f16.gguf"

    def gguf(**options):
        return tensorfs.open(f16, **options).files["gguf/model.gguf"].read()

    assert gguf(gguf_type="q8_0", set={"llama.rope.freq_base": 5000}) == gguf(gguf_type="Q8_0", set={"llama.rope.freq_base": "5000"})
    assert gguf(set={"tokenizer.ggml.add_bos_token": True}) == gguf(set={"tokenizer.ggml.add_bos_token": "true"})
    assert gguf(gguf_type="q4_k_s", tensor_type={"attn_q": "q8_0"}) == gguf(gguf_type="q4_k_s", tensor_type=(t for t in ["attn_q=q8_0"]))
    assert gguf(pure=False, mlx_bits=None, unset=[], set={}) == gguf()
    with pytest.raises(tensorfs.Invalid, match="equals sign"):
        gguf(set={"a=b": 1})
    with pytest.raises(tensorfs.Invalid, match="NUL"):
        gguf(mmproj="a\0b")
    with pytest.raises(tensorfs.Invalid, match="did you mean gguf-type"):
        tensorfs.Model(f16, gguf_typ="q8_0")
    with pytest.raises(tensorfs.Invalid, match='--mlx-bits "0": want a number'):
        gguf(mlx_bits=0)
