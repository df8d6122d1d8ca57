#!/usr/bin/env python3
"""Makes demo_greedy.json: what the demo's target writes at temperature 0, by another
implementation.

Run by hand when demo/target changes, never by a build or a test:

    python3 -m venv /tmp/goldens
    /tmp/goldens/bin/pip install -r tests/integration/goldens/requirements.txt
    /tmp/goldens/bin/python tests/integration/goldens/make_goldens.py

The ids of the prompts are tiktoken's, and the model is a Llama in a page of numpy, in float64. Two
logits that are nearly as high as each other could be ordered otherwise by float32: the script stops
where the two highest are closer than MARGIN.
"""

import json
import pathlib
import struct

import numpy
import tiktoken

HERE = pathlib.Path(__file__).resolve().parent
MODEL = HERE.parents[2] / "demo" / "target"
TOKENS = 48
MARGIN = 2e-4

# TenPrompts() of tests/integration/models.cc.
PROMPTS = [
    "Once upon a time",
    "The city was quiet in the morning, and",
    "She opened the letter and read it twice before",
    "The old captain looked at the sea and said",
    "This document describes the interface between",
    "The function returns an error if",
    "In the following example, the compiler",
    "When a new version of the library is released,",
    "He had never seen the house by daylight;",
    "A proposal should explain why",
]

GPT2_REGEX = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def read_tokenizer():
    spec = json.loads((MODEL / "tokenizer.json").read_text(encoding="utf-8"))
    special = {token["content"]: token["id"] for token in spec["added_tokens"]}
    # GPT-2's letter of each byte, the other way round.
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    byte_of = {chr(byte): byte for byte in printable}
    byte_of.update({chr(0x100 + i): byte for i, byte in enumerate(others)})
    ranks = {
        bytes(byte_of[letter] for letter in token): i
        for token, i in spec["model"]["vocab"].items()
        if token not in special
    }
    return tiktoken.Encoding(
        "demo", pat_str=GPT2_REGEX, mergeable_ranks=ranks, special_tokens=special
    )


def read_tensors():
    data = (MODEL / "model.safetensors").read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__", None)
    tensors = {}
    for name, view in header.items():
        assert view["dtype"] == "BF16", name
        begin, end = (8 + size + offset for offset in view["data_offsets"])
        bits = numpy.frombuffer(data[begin:end], dtype="<u2").astype(numpy.uint32) << 16
        tensors[name] = bits.view(numpy.float32).astype(numpy.float64).reshape(view["shape"])
    return tensors


class Llama:
    def __init__(self):
        self.config = json.loads((MODEL / "config.json").read_text())
        self.tensors = read_tensors()
        self.keys = [[] for _ in range(self.config["num_hidden_layers"])]
        self.values = [[] for _ in range(self.config["num_hidden_layers"])]

    def norm(self, x, name):
        scale = numpy.sqrt((x * x).mean() + self.config["rms_norm_eps"])
        return x / scale * self.tensors[name]

    def rotate(self, heads, position):
        half = heads.shape[1] // 2
        theta = self.config["rope_parameters"]["rope_theta"]
        angles = position * theta ** (-numpy.arange(half) / half)
        first, second = heads[:, :half], heads[:, half:]
        cos, sin = numpy.cos(angles), numpy.sin(angles)
        return numpy.concatenate([first * cos - second * sin, second * cos + first * sin], axis=1)

    def feed(self, token):
        """The logits after one more token."""
        position = len(self.keys[0])
        size = self.config["head_dim"]
        group = self.config["num_attention_heads"] // self.config["num_key_value_heads"]
        x = self.tensors["model.embed_tokens.weight"][token]
        for i in range(self.config["num_hidden_layers"]):
            layer = f"model.layers.{i}."
            weight = lambda name: self.tensors[f"{layer}{name}.weight"]  # noqa: B023, E731
            h = self.norm(x, layer + "input_layernorm.weight")
            q, k, v = (
                (weight(f"self_attn.{part}_proj") @ h).reshape(-1, size) for part in "qkv"
            )
            self.keys[i].append(self.rotate(k, position))
            self.values[i].append(v)
            q = self.rotate(q, position)
            keys = numpy.repeat(numpy.stack(self.keys[i]), group, axis=1)
            values = numpy.repeat(numpy.stack(self.values[i]), group, axis=1)
            scores = numpy.einsum("hd,phd->hp", q, keys) / numpy.sqrt(size)
            scores = numpy.exp(scores - scores.max(axis=1, keepdims=True))
            scores /= scores.sum(axis=1, keepdims=True)
            attended = numpy.einsum("hp,phd->hd", scores, values).reshape(-1)
            x = x + weight("self_attn.o_proj") @ attended
            h = self.norm(x, layer + "post_attention_layernorm.weight")
            gate = weight("mlp.gate_proj") @ h
            up = weight("mlp.up_proj") @ h
            x = x + weight("mlp.down_proj") @ (gate / (1 + numpy.exp(-gate)) * up)
        return self.tensors["model.embed_tokens.weight"] @ self.norm(x, "model.norm.weight")


def main():
    tokenizer = read_tokenizer()
    goldens = []
    for prompt in PROMPTS:
        model = Llama()
        prompt_ids = tokenizer.encode(prompt)
        for token in prompt_ids:
            logits = model.feed(token)
        greedy_ids = []
        while True:
            below, highest = numpy.sort(logits)[-2:]
            assert highest - below > MARGIN, (prompt, len(greedy_ids), highest - below)
            greedy_ids.append(int(logits.argmax()))
            if len(greedy_ids) == TOKENS or greedy_ids[-1] == model.config["eos_token_id"]:
                break
            logits = model.feed(greedy_ids[-1])
        goldens.append({"prompt": prompt, "prompt_ids": prompt_ids, "greedy_ids": greedy_ids})
    lines = ",\n".join(json.dumps(golden) for golden in goldens)
    (HERE / "demo_greedy.json").write_text(f"[\n{lines}\n]\n")


main()
