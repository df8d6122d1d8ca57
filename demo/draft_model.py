"""A draft of the Llama family with a target's tokenizer and a pruned output.

The input embedding begins as the principal components of the target's, and so does the output, of
the kept tokens alone. The file has what Tandem reads as W8A8 (docs/models.md): int8 with a scale
for each row.
"""

import dataclasses
import json
import pathlib
import sys

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig, LlamaModel

EMBEDDINGS = ("embed_tokens.weight", "wte.weight", "embed_in.weight")  # ends of their names


@dataclasses.dataclass(frozen=True)
class Shape:
    hidden: int = 192
    layers: int = 2
    heads: int = 6
    feed_forward: int = 512


class Draft(torch.nn.Module):
    """`kept`: ascending ids of the tokens that the output has."""

    def __init__(self, shape: Shape, vocabulary: int, kept: np.ndarray, positions: int):
        super().__init__()
        self.register_buffer("kept", torch.from_numpy(kept.astype(np.int64)))
        self.config = LlamaConfig(
            vocab_size=vocabulary,
            hidden_size=shape.hidden,
            intermediate_size=shape.feed_forward,
            num_hidden_layers=shape.layers,
            num_attention_heads=shape.heads,
            num_key_value_heads=shape.heads,
            max_position_embeddings=positions,
            rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
            rms_norm_eps=1e-5,
            tie_word_embeddings=False,
        )
        self.model = LlamaModel(self.config)
        self.dropout = torch.nn.Dropout(
            0.0
        )  # in training, of the embedding and of the last hidden state
        self.lm_head = torch.nn.Linear(shape.hidden, len(kept), bias=False)

    def forward(self, ids: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        """Logits [places, kept] at the places of ids [texts, tokens] where `at` is true."""
        embedded = self.dropout(self.model.embed_tokens(ids))
        hidden = self.model(inputs_embeds=embedded, use_cache=False).last_hidden_state
        return self.lm_head(self.dropout(hidden[at]))

    @torch.no_grad()
    def begin_with(self, embedding: torch.Tensor) -> None:
        """Embedding and output from the target's [vocabulary, any width]."""
        table = embedding.float() - embedding.float().mean(0)
        _, vectors = torch.linalg.eigh(table.T @ table)  # ascending
        parts = table @ vectors[:, -self.config.hidden_size :]
        parts /= parts.square().mean().sqrt()
        self.model.embed_tokens.weight.copy_(0.3 * parts)
        self.lm_head.weight.copy_(0.05 * parts[self.kept])


def target_embedding(target: pathlib.Path) -> torch.Tensor:
    """The target's input embedding, as its files have it."""
    for file in sorted(target.glob("*.safetensors")):
        with safe_open(file, "pt") as tensors:
            for name in tensors.keys():
                if name.endswith(EMBEDDINGS):
                    return tensors.get_tensor(name)
    sys.exit(f"{target}: no *.safetensors there has a tensor {' or '.join(EMBEDDINGS)}")


def rounded(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """int8 and the scale of each row."""
    scale = (weight.abs().amax(1, keepdim=True) / 127).clamp_min(1e-12).to(torch.bfloat16)
    return (weight / scale.float()).round().clamp(-127, 127).to(torch.int8), scale


def save(draft: Draft, out: pathlib.Path, target: dict, made_of: str) -> None:
    """`target`: its config.json. `made_of`: the target's name."""
    tensors = {}
    for name, value in draft.named_parameters():
        value = value.detach().float().cpu()
        if value.dim() == 2:
            tensors[name], tensors[name.removesuffix("weight") + "weight_scale"] = rounded(value)
        else:
            tensors[name] = value.to(torch.bfloat16)
    kept = draft.kept.cpu()
    tensors["d2t"] = kept - torch.arange(len(kept))
    config = draft.config
    rope = {"rope_type": "default", "rope_theta": 10000.0}
    numbers = {"num_bits": 8, "type": "int", "symmetric": True}
    scheme = {
        "targets": ["Linear", "Embedding"],
        "weights": {**numbers, "strategy": "channel", "dynamic": False},
        "input_activations": {**numbers, "strategy": "token", "dynamic": True},
    }
    fields = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": config.vocab_size,
        "draft_vocab_size": len(kept),
        "pruned_vocabulary_of": made_of,
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_hidden_layers": config.num_hidden_layers,
        "num_attention_heads": config.num_attention_heads,
        "num_key_value_heads": config.num_key_value_heads,
        "hidden_act": "silu",
        "max_position_embeddings": config.max_position_embeddings,
        "rms_norm_eps": config.rms_norm_eps,
        "rope_parameters": rope,
        "tie_word_embeddings": False,
        "bos_token_id": target.get("bos_token_id"),
        "eos_token_id": target.get("eos_token_id"),
        "quantization_config": {
            "quant_method": "compressed-tensors",
            "format": "int-quantized",
            "quantization_status": "compressed",
            "config_groups": {"group_0": scheme},
        },
    }
    out.mkdir(parents=True, exist_ok=True)
    (out / "config.json").write_text(json.dumps(fields, indent=1) + "\n")
    save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})


def load(folder: pathlib.Path) -> Draft:
    """A draft that `save` wrote."""
    fields = json.loads((folder / "config.json").read_text())
    if "draft_vocab_size" not in fields or fields.get("model_type") != "llama":
        sys.exit(
            f"{folder}: no draft that distill.py wrote: its config.json has no draft_vocab_size"
        )
    tensors = load_file(folder / "model.safetensors")
    kept = tensors.pop("d2t")
    kept = (kept + torch.arange(len(kept))).numpy()
    values = {"kept": torch.from_numpy(kept)}
    for name, tensor in tensors.items():
        if name.endswith("weight_scale"):
            continue
        scale = tensors.get(name.removesuffix("weight") + "weight_scale")
        values[name] = tensor.float() if scale is None else tensor.float() * scale.float()
    shape = Shape(
        fields["hidden_size"],
        fields["num_hidden_layers"],
        fields["num_attention_heads"],
        fields["intermediate_size"],
    )
    draft = Draft(shape, fields["vocab_size"], kept, fields["max_position_embeddings"])
    draft.load_state_dict(values)
    return draft
