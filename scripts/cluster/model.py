"""Makes a Llama of random weights, large enough that reading it takes a moment, of a small one that
tensorfs export wrote: model.py HF-DIRECTORY LAYERS"""
import json, os, random, struct, sys

directory, layers = sys.argv[1], int(sys.argv[2])
width, ff = 1024, 2816
with open(f"{directory}/config.json") as f:
    config = json.load(f)
heads = 16
config.update(hidden_size=width, intermediate_size=ff, num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=heads,
              head_dim=width // heads, torch_dtype="bfloat16", tie_word_embeddings=False)
with open(f"{directory}/config.json", "w") as f:
    json.dump(config, f)
shapes = {"model.embed_tokens.weight": (config["vocab_size"], width), "lm_head.weight": (config["vocab_size"], width), "model.norm.weight": (width,)}
for n in range(layers):
    at = f"model.layers.{n}."
    shapes |= {at + "input_layernorm.weight": (width,), at + "post_attention_layernorm.weight": (width,)}
    shapes |= {at + f"self_attn.{k}_proj.weight": (width, width) for k in "qkvo"}
    shapes |= {at + "mlp.gate_proj.weight": (ff, width), at + "mlp.up_proj.weight": (ff, width), at + "mlp.down_proj.weight": (width, ff)}

# The upper byte of each number is one of four, so that all are finite and small.
upper = bytes((0x3B, 0x3C, 0xBB, 0xBC)[n % 4] for n in range(256))
source = random.Random(1)
header, end = {}, 0
for name, shape in shapes.items():
    size = 2
    for n in shape:
        size *= n
    header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [end, end + size]}
    end += size
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
os.unlink(f"{directory}/model.safetensors")
with open(f"{directory}/model.safetensors", "wb") as f:
    f.write(struct.pack("<Q", len(text)) + text)
    for name, at in header.items():
        b = bytearray(source.randbytes(at["data_offsets"][1] - at["data_offsets"][0]))
        b[1::2] = b[1::2].translate(upper)
        f.write(b)
