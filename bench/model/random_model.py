#!/usr/bin/env python3
"""Writes a model of Llama's form with random weights in bf16, for what a pass costs at a size that
nobody has to download.

  bench/model/random_model.py DIRECTORY 1b    2.2 GB: hidden 2048, 16 layers, 32 heads
  bench/model/random_model.py DIRECTORY 7b    13.5 GB: hidden 4096, 32 layers, 32 heads
  bench/model/random_model.py DIRECTORY 13b   26 GB: hidden 5120, 40 layers, 40 heads
  bench/model/random_model.py DIRECTORY tiny  a test's

Python's own library only. Its text is noise; its time is that of any model of this shape.
"""

import json
import os
import random
import struct
import sys

#             hidden  feed-forward  layers  heads  vocabulary
SHAPES = {"1b": (2048, 8192, 16, 32, 4096), "7b": (4096, 11008, 32, 32, 32000), "13b": (5120, 13824, 40, 40, 32000), "tiny": (64, 128, 2, 4, 300)}
BLOCK = 1 << 20  # numbers that are repeated: no pass takes less time for it


def shapes_of(hidden, inner, layers, _, vocabulary):
    yield "model.embed_tokens.weight", (vocabulary, hidden)
    yield "lm_head.weight", (vocabulary, hidden)
    yield "model.norm.weight", (hidden,)
    for layer in range(layers):
        lead = f"model.layers.{layer}."
        for name in "qkvo":
            yield f"{lead}self_attn.{name}_proj.weight", (hidden, hidden)
        for name, shape in (("gate", (inner, hidden)), ("up", (inner, hidden)), ("down", (hidden, inner))):
            yield f"{lead}mlp.{name}_proj.weight", shape
        for name in ("input_layernorm", "post_attention_layernorm"):
            yield f"{lead}{name}.weight", (hidden,)


def main():
    if len(sys.argv) != 3 or sys.argv[2] not in SHAPES:
        sys.exit(__doc__)
    folder, shape = sys.argv[1], SHAPES[sys.argv[2]]
    hidden, inner, layers, heads, vocabulary = shape
    os.makedirs(folder, exist_ok=True)
    with open(f"{folder}/config.json", "w", encoding="utf-8") as file:
        json.dump({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": hidden,
                   "intermediate_size": inner, "num_hidden_layers": layers, "num_attention_heads": heads,
                   "num_key_value_heads": heads, "vocab_size": vocabulary, "max_position_embeddings": 4096,
                   "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
                   "bos_token_id": 1, "eos_token_id": 2}, file)
    # Small numbers of either sign: 0x3cxx is about 0.01 in bf16.
    source = random.Random(7)
    block = struct.pack(f"<{BLOCK}H", *((source.getrandbits(16) & 0x80FF) | 0x3C00 for _ in range(BLOCK)))
    header, at = {}, 0
    for name, size in shapes_of(*shape):
        count = 2 * size[0] * (size[1] if len(size) > 1 else 1)
        header[name] = {"dtype": "BF16", "shape": list(size), "data_offsets": [at, at + count]}
        at += count
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(f"{folder}/model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for left in range(at, 0, -len(block)):
            file.write(block[:left])


if __name__ == "__main__":
    main()
