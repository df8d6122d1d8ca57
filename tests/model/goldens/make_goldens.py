#!/usr/bin/env python3
"""Makes the golden files of the parity test: tiny random Llama models and their logits.

Run by hand when a variant is added, never by a build or a test:

    python3 -m venv /tmp/goldens
    /tmp/goldens/bin/pip install -r tests/model/goldens/requirements.txt
    /tmp/goldens/bin/python tests/model/goldens/make_goldens.py

Each variant becomes a folder as Hugging Face transformers would write it (config.json,
generation_config.json, *.safetensors), beside it

    golden.json         {"sequences": [{"tokens": [id, ...], "logits": tensor name}, ...], ...}
    golden.safetensors  for each sequence float32 logits [tokens, vocab_size]

The logits are those of transformers on the CPU, in fp32 with eager attention, of the folder as it
was read back: weights that the file holds in bf16 or fp16 are rounded first, then computed with in
fp32. golden.json also says how far transformers' own float64 result is from its float32 one
(relative to the sequence's largest logit), so that a test's tolerance can be judged. manifest.json
lists the variants and the versions used. The script is deterministic: a variant's seed is its
place in the list.
"""

import copy
import json
import pathlib
import shutil
import sys

import safetensors.torch
import tokenizers
import torch
from transformers import LlamaConfig, LlamaForCausalLM

import golden_files
from golden_files import HERE, logits_of

LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    # With head_dim 16 the wavelengths are 6.3, 32, 167, ... positions: the first is kept, the
    # second (between 64/4 and 64/1) interpolated, the others stretched by the factor.
    "original_max_position_embeddings": 64,
}

BASE = dict(
    vocab_size=97,
    hidden_size=32,
    intermediate_size=44,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=4,
    max_position_embeddings=128,
    rms_norm_eps=1e-5,
    rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
    tie_word_embeddings=False,
    bos_token_id=1,
    eos_token_id=2,
)

LLAMA3 = dict(
    vocab_size=64,
    num_key_value_heads=1,
    num_attention_heads=2,
    max_position_embeddings=512,
    rope_parameters=LLAMA3_ROPE,
    eos_token_id=[2, 3],
)

# name -> what it is for, changes to BASE, and how it is written.
VARIANTS = {
    "llama2": dict(about="Llama 2 style: untied, as many key/value heads as heads"),
    "tied": dict(
        about="output tied to the embedding: no lm_head.weight in the file; rms_norm_eps 1e-6",
        config=dict(tie_word_embeddings=True, vocab_size=64, rms_norm_eps=1e-6),
    ),
    "gqa_odd": dict(
        about="grouped-query attention (6 heads, 2 key/value heads), sizes not multiples of 16",
        config=dict(
            hidden_size=36,
            intermediate_size=70,
            num_attention_heads=6,
            num_key_value_heads=2,
            tie_word_embeddings=True,
        ),
    ),
    "llama3": dict(
        about="Llama 3 style rope scaling, config.json as transformers 5 writes it; two end tokens",
        config=LLAMA3,
        lengths=(5, 70),
    ),
    "llama3_config4": dict(
        about="the model of llama3 with config.json as transformers 4 wrote it",
        config=LLAMA3,
        lengths=(5, 70),
        same_weights_as="llama3",
        config4=True,
    ),
    "head_dim": dict(
        about="head_dim 12 given, where hidden_size / heads is 8; three layers",
        config=dict(
            head_dim=12,
            num_hidden_layers=3,
            num_key_value_heads=2,
            intermediate_size=33,
            tie_word_embeddings=True,
            vocab_size=67,
        ),
    ),
    "biases": dict(
        about="attention_bias and mlp_bias",
        config=dict(attention_bias=True, mlp_bias=True, tie_word_embeddings=True),
    ),
    "sharded": dict(
        about="weights in several files with model.safetensors.index.json",
        config=dict(vocab_size=64),
        shard="30KB",
    ),
    "bf16": dict(
        about="weights in bf16; hidden 48, feed-forward 100, vocabulary 97",
        config=dict(hidden_size=48, intermediate_size=100, num_key_value_heads=2),
        dtype=torch.bfloat16,
    ),
    "fp16": dict(
        about="weights in fp16; hidden 48, feed-forward 100, vocabulary 97, tied",
        config=dict(hidden_size=48, intermediate_size=100, tie_word_embeddings=True),
        dtype=torch.float16,
    ),
    "padded": dict(
        about="vocab_size 96, of which tokenizer.json (words w0, w1, ...) has 89: the rest pads",
        config=dict(vocab_size=96),
        tokens=89,
    ),
}


def randomize(model: LlamaForCausalLM, generator: torch.Generator) -> None:
    """Weights large enough that attention is far from uniform and logits differ by whole units."""
    for name, parameter in sorted(model.named_parameters()):
        noise = torch.randn(parameter.shape, generator=generator)
        with torch.no_grad():
            if "norm" in name:
                parameter.copy_(1.0 + 0.2 * noise)
            elif "embed" in name or "lm_head" in name:
                parameter.copy_(0.5 * noise)
            else:
                parameter.copy_(0.25 * noise)


def as_transformers4(config: dict) -> dict:
    """The same configuration in the older layout: rope_theta and rope_scaling at the top level."""
    config = copy.deepcopy(config)
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope.pop("rope_theta")
    config["rope_scaling"] = rope
    config["torch_dtype"] = config.pop("dtype")
    config["transformers_version"] = "4.46.0"
    return config


def write_tokenizer(folder: pathlib.Path, size: int) -> None:
    words = {f"w{i}": i for i in range(size)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="w0"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)


def write_model(folder: pathlib.Path, variant: dict, seed: int) -> None:
    config = LlamaConfig(**{**BASE, **variant.get("config", {})})
    model = LlamaForCausalLM(config)
    randomize(model, torch.Generator().manual_seed(seed))
    model.to(variant.get("dtype", torch.float32))
    model.save_pretrained(folder, max_shard_size=variant.get("shard", "5GB"))
    if variant.get("config4"):
        path = folder / "config.json"
        path.write_text(json.dumps(as_transformers4(json.loads(path.read_text())), indent=2) + "\n")
    if "tokens" in variant:
        write_tokenizer(folder, variant["tokens"])


def write_golden(folder: pathlib.Path, variant: dict, seed: int) -> dict:
    generator = torch.Generator().manual_seed(1000 + seed)
    vocab = variant.get("tokens", LlamaConfig.from_pretrained(folder).vocab_size)
    model = golden_files.read_back(folder)
    exact_model = golden_files.read_back(folder, torch.float64)
    sequences, all_logits = [], []
    for index, length in enumerate(variant.get("lengths", (5, 12, 24))):
        tokens = torch.randint(0, vocab, (length,), generator=generator).tolist()
        logits = logits_of(model, tokens)
        exact = logits_of(exact_model, tokens)
        all_logits.append(logits)
        sequences.append(
            {
                "tokens": tokens,
                "logits": f"logits_{index}",
                "largest_logit": round(logits.abs().max().item(), 4),
                "float64_deviation": float(
                    f"{((logits - exact).abs().max() / exact.abs().max()).item():.2g}"
                ),
            }
        )
    golden = {"about": variant["about"], "sequences": sequences}
    golden_files.write_golden(folder, golden, all_logits)
    return golden


def main() -> None:
    golden_files.prepare()
    seeds = {name: place for place, name in enumerate(VARIANTS)}
    for name, variant in VARIANTS.items():
        seed = seeds[variant.get("same_weights_as", name)]
        folder = HERE / name
        shutil.rmtree(folder, ignore_errors=True)
        write_model(folder, variant, seed)
        golden = write_golden(folder, variant, seed)
        size = golden_files.folder_bytes(folder)
        deviation = max(s["float64_deviation"] for s in golden["sequences"])
        print(f"{name}: {size / 1000:.0f} kB, float64 deviation {deviation}", file=sys.stderr)
    check_rope_matters()
    golden_files.write_manifest(
        "manifest.json",
        "make_goldens.py",
        "float32, eager attention, CPU, one thread",
        VARIANTS,
    )


def check_rope_matters() -> None:
    """The goldens would be worth little if a reader that ignores rope scaling passed them."""
    folder = HERE / "llama3"
    golden = json.loads((folder / "golden.json").read_text())
    sequence = golden["sequences"][-1]
    want = safetensors.torch.load_file(folder / "golden.safetensors")[sequence["logits"]]
    model = golden_files.read_back(folder)
    plain = copy.deepcopy(model.config)
    plain.rope_parameters = {"rope_type": "default", "rope_theta": LLAMA3_ROPE["rope_theta"]}
    unscaled = LlamaForCausalLM(plain).eval()
    unscaled.load_state_dict(model.state_dict())
    got = logits_of(unscaled, sequence["tokens"])
    difference = ((got - want).abs().max() / want.abs().max()).item()
    assert difference > 0.05, f"leaving out the rope scaling changes logits by {difference} only"
    four = safetensors.torch.load_file(HERE / "llama3_config4" / "golden.safetensors")
    assert torch.equal(four[sequence["logits"]], want), "the two layouts of config.json differ"


if __name__ == "__main__":
    main()
