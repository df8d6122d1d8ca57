#!/usr/bin/env python3
"""Makes the golden files of the families: a tiny random model of each, and what it gives.

Run by hand when a family is added, never by a build or a test, as make_goldens.py is:

    /tmp/goldens/bin/python tests/model/goldens/make_families.py [name ...]

A name makes that one anew; without one all are made. Each becomes a folder as transformers writes
it (config.json, generation_config.json, model.safetensors in fp32), beside it

    golden.json         {"sequences": [{"tokens": [id, ...], "logits": tensor name}, ...],
                         "greedy": {"prompt": [id, ...], "ids": [64 ids]}, ...}
    golden.safetensors  for each sequence float32 logits [tokens, vocab_size]

Logits and ids are those of transformers on the CPU in fp32 with eager attention and without a
cache. A seed is taken for which no greedy choice is near a tie, and which rounding to bf16 leaves
about what it was. families.json lists the models, and
the versions that made them.
"""

import copy
import shutil
import sys

import torch
import transformers
from transformers import AutoModelForCausalLM

import golden_files
from golden_files import HERE, logits_of

VOCABULARY = 64
GREEDY = 64
MIN_MARGIN = 2e-3  # between the two likeliest tokens, relative to the largest logit
MAX_ROUNDED = 1.5e-2  # what rounding the matrices to bf16 may change, relative to a row's largest

BASE = dict(
    vocab_size=VOCABULARY,
    hidden_size=32,
    intermediate_size=44,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=128,
    tie_word_embeddings=True,
    bos_token_id=1,
    eos_token_id=2,
    pad_token_id=0,
)

# name -> what it is for, the class of its configuration, and its fields beside BASE's.
MODELS = {
    "mistral": dict(
        about="a window of 7 tokens in all layers; head_dim 16 where hidden_size / heads is 8",
        config="MistralConfig",
        fields=dict(sliding_window=7, head_dim=16, tie_word_embeddings=False),
    ),
    "qwen2": dict(
        about="biases of q, k and v; a window that is not used",
        config="Qwen2Config",
        fields=dict(use_sliding_window=False, sliding_window=5, max_window_layers=1),
    ),
    "qwen2_window": dict(
        about="the second layer slides; a yarn rope",
        config="Qwen2Config",
        fields=dict(
            use_sliding_window=True,
            sliding_window=5,
            max_window_layers=1,
            rope_parameters=dict(
                rope_type="yarn",
                rope_theta=10000.0,
                factor=2.0,
                beta_fast=2.0,  # the ramp begins at the second pair, not at the first
                original_max_position_embeddings=64,
            ),
            num_attention_heads=2,
            num_key_value_heads=1,
        ),
    ),
    "qwen3": dict(
        about="norms of q and k over each head; head_dim 16",
        config="Qwen3Config",
        fields=dict(head_dim=16),
    ),
    "smollm3": dict(
        about="the second of three layers is not rotated; a linear rope",
        config="SmolLM3Config",
        fields=dict(
            num_hidden_layers=3,
            no_rope_layers=[1, 0, 1],
            rope_parameters=dict(rope_type="linear", rope_theta=10000.0, factor=2.0),
        ),
    ),
    "gemma3": dict(
        about="norms on both sides, windows in two of three layers, two ropes, GeGLU",
        config="Gemma3TextConfig",
        fields=dict(
            num_hidden_layers=3,
            head_dim=16,
            query_pre_attn_scalar=24,
            sliding_window=6,
            layer_types=["sliding_attention", "full_attention", "sliding_attention"],
            rope_parameters=dict(
                full_attention=dict(rope_type="linear", rope_theta=1000000.0, factor=8.0),
                sliding_attention=dict(rope_type="default", rope_theta=10000.0),
            ),
        ),
        plus_one=True,
    ),
    "phi3": dict(
        about="fused projections; a longrope of three quarters of a head, past its first context",
        config="Phi3Config",
        fields=dict(
            num_attention_heads=2,
            original_max_position_embeddings=16,
            rope_parameters=dict(
                rope_type="longrope",
                rope_theta=10000.0,
                partial_rotary_factor=0.75,
                short_factor=[1.0, 1.1, 1.2, 1.3, 1.4, 1.5],
                long_factor=[1.0, 1.5, 2.0, 3.0, 5.0, 8.0],
                original_max_position_embeddings=16,
            ),
            tie_word_embeddings=False,
        ),
        lengths=(20, 40),
    ),
    "olmo2": dict(
        about="norms after attention and MLP; norms of q and k over all heads",
        config="Olmo2Config",
        fields=dict(tie_word_embeddings=False),
    ),
    "granite": dict(
        about="multipliers of embeddings, attention, residual and logits; a dynamic rope",
        config="GraniteConfig",
        fields=dict(
            embedding_multiplier=3.0,
            attention_multiplier=0.2,
            residual_multiplier=0.4,
            logits_scaling=0.5,
            attention_bias=True,
            tie_word_embeddings=False,
            rope_parameters=dict(rope_type="dynamic", rope_theta=10000.0, factor=2.0),
        ),
    ),
    "gpt2": dict(
        about="learned positions, layer norms, transposed matrices, no gate",
        config="GPT2Config",
        only=dict(
            vocab_size=VOCABULARY,
            n_positions=128,
            n_embd=32,
            n_layer=2,
            n_head=4,
            n_inner=72,
            bos_token_id=1,
            eos_token_id=2,
        ),
    ),
    "opt": dict(
        about="learned positions from 2 on, biases everywhere, ReLU",
        config="OPTConfig",
        fields=dict(ffn_dim=72, word_embed_proj_dim=32, max_position_embeddings=100),
        without=("intermediate_size", "num_key_value_heads"),
    ),
    "gpt_neox": dict(
        about="attention and MLP in parallel, q, k and v fused by head, a quarter of a head rotates",
        config="GPTNeoXConfig",
        fields=dict(
            num_attention_heads=2,
            intermediate_size=72,
            tie_word_embeddings=False,
            rope_parameters=dict(
                rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.25
            ),
        ),
        without=("num_key_value_heads",),
    ),
}


def make_config(about: dict):
    fields = about.get("only")
    if fields is None:
        fields = {k: v for k, v in BASE.items() if k not in about.get("without", ())}
        fields |= about["fields"]
    return getattr(transformers, about["config"])(**fields)


def randomize(model, generator: torch.Generator, plus_one: bool) -> None:
    """As make_goldens.py does; biases and the weights of norms differ from 0 and 1, too."""
    for name, parameter in sorted(model.named_parameters()):
        noise = torch.randn(parameter.shape, generator=generator)
        is_norm = "norm" in name or ".ln_" in name
        is_table = any(word in name for word in ("embed", "lm_head", "wte", "wpe"))
        with torch.no_grad():
            if is_norm and name.endswith("weight"):
                parameter.copy_((0.0 if plus_one else 1.0) + 0.2 * noise)
            else:
                # Embeddings that are scaled afterwards must not drown what the layers add.
                table = 0.1 if plus_one else 0.5
                parameter.copy_((table if is_table and not is_norm else 0.2) * noise)


def greedy(model, prompt: list[int]) -> tuple[list[int], float]:
    text, ids, margin = list(prompt), [], float("inf")
    for _ in range(GREEDY):
        row = logits_of(model, text)[-1]
        top = row.topk(2).values
        margin = min(margin, ((top[0] - top[1]) / row.abs().max()).item())
        ids.append(int(row.argmax()))
        text.append(ids[-1])
    return ids, margin


def rounded_deviation(model, texts: list[list[int]]) -> float:
    """How far the logits move when the matrices are rounded to bf16."""
    rounded = copy.deepcopy(model)
    for parameter in rounded.parameters():
        if parameter.dim() == 2:
            with torch.no_grad():
                parameter.copy_(parameter.to(torch.bfloat16).to(torch.float32))
    worst = 0.0
    for text in texts:
        want, got = logits_of(model, text), logits_of(rounded, text)
        row = (got - want).abs().amax(-1) / want.abs().amax(-1)
        worst = max(worst, row.max().item())
    return worst


def make(name: str, about: dict, place: int) -> str:
    folder = HERE / name
    config = make_config(about)
    for attempt in range(60):
        generator = torch.Generator().manual_seed(5000 + 100 * place + attempt)
        model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
        model.to(torch.float32)
        randomize(model, generator, about.get("plus_one", False))
        lengths = about.get("lengths", (5, 24))
        draw = lambda n: torch.randint(0, VOCABULARY, (n,), generator=generator).tolist()
        texts = [draw(length) for length in lengths]
        prompt = draw(max(6, lengths[0]))
        if rounded_deviation(model, texts) > MAX_ROUNDED:
            continue
        ids, margin = greedy(model, prompt)
        if margin > MIN_MARGIN and len(set(ids)) > 3:
            break
    else:
        raise SystemExit(f"{name}: every seed has a near tie, or is far off when it is rounded")
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder)
    read_back = golden_files.read_back(folder)
    assert greedy(read_back, prompt)[0] == ids, f"{name} is another model when read back"
    golden = {
        "about": about["about"],
        "sequences": [
            {"tokens": tokens, "logits": f"logits_{index}"} for index, tokens in enumerate(texts)
        ],
        "greedy": {"prompt": prompt, "ids": ids, "margin": float(f"{margin:.2g}")},
    }
    golden_files.write_golden(folder, golden, [logits_of(read_back, tokens) for tokens in texts])
    size = golden_files.folder_bytes(folder)
    assert size <= 200_000, f"{name} takes {size} bytes"
    return f"{name}: {size / 1000:.0f} kB, attempt {attempt}, margin {margin:.2g}"


def main() -> None:
    golden_files.prepare()
    for place, (name, about) in enumerate(MODELS.items()):
        if len(sys.argv) == 1 or name in sys.argv[1:]:
            print(make(name, about, place), file=sys.stderr, flush=True)
    golden_files.write_manifest(
        "families.json",
        "make_families.py",
        "float32, eager attention, CPU, one thread, no cache",
        MODELS,
    )


if __name__ == "__main__":
    main()
