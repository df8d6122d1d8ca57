"""What the makers of golden files share: how they compute, and how they write what they
computed."""

import json
import pathlib

import safetensors.torch
import torch
import transformers
from transformers import AutoModelForCausalLM

HERE = pathlib.Path(__file__).resolve().parent


def prepare() -> None:
    """Before anything is computed: one thread, so that a file can be made again bit for bit."""
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()


def read_back(folder: pathlib.Path, dtype: torch.dtype = torch.float32):
    """The model of a folder as transformers reads it, with eager attention."""
    return AutoModelForCausalLM.from_pretrained(
        folder, dtype=dtype, attn_implementation="eager"
    ).eval()


def logits_of(model, tokens: list[int]) -> torch.Tensor:
    """[tokens, vocab_size], without a cache."""
    with torch.inference_mode():
        return model(torch.tensor([tokens]), use_cache=False).logits[0]


def write_golden(folder: pathlib.Path, golden: dict, logits: list[torch.Tensor]) -> None:
    """golden.json, and golden.safetensors with the logits of each of golden["sequences"]."""
    tensors = {f"logits_{index}": rows.contiguous() for index, rows in enumerate(logits)}
    for sequence, name in zip(golden["sequences"], tensors, strict=True):
        assert sequence["logits"] == name, sequence
    safetensors.torch.save_file(tensors, folder / "golden.safetensors")
    for path in folder.glob("*.safetensors"):
        path.chmod(0o644)
    (folder / "golden.json").write_text(json.dumps(golden) + "\n")


def folder_bytes(folder: pathlib.Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def write_manifest(name: str, made_by: str, computed_in: str, variants: dict) -> None:
    """The list of all variants, and the versions that made them."""
    manifest = {
        "made_by": f"tests/model/goldens/{made_by}",
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "computed_in": computed_in,
        "variants": {variant: about["about"] for variant, about in variants.items()},
    }
    (HERE / name).write_text(json.dumps(manifest, indent=1) + "\n")
