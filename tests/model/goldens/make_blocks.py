#!/usr/bin/env python3
"""Makes blocks.safetensors: rows of ggml's blocks, and their values as the package `gguf` has them.

Run by hand when a type is added, never by a build or a test, as make_goldens.py is:

    /tmp/goldens/bin/python tests/model/goldens/make_blocks.py

The file has for each type NAME

    NAME.blocks  [blocks, bytes of one], uint8
    NAME.values  [blocks, values of one], float32

Its metadata name the version that made it. Quants, scales and minimums of the parts of a block are
random bits. The fp16 numbers of the block are of any sign and size, also subnormal and zero, but
finite.
"""

import importlib.metadata
import pathlib

import gguf
import numpy as np
import safetensors.numpy

BLOCKS = 6
# name -> where the fp16 numbers of a block lie
TYPES = {
    "Q4_0": [0],
    "Q4_1": [0, 2],
    "Q5_0": [0],
    "Q5_1": [0, 2],
    "Q8_0": [0],
    "Q4_K": [0, 2],
    "Q5_K": [0, 2],
    "Q6_K": [208],
}


def random_blocks(kind: gguf.GGMLQuantizationType, places: list[int], random) -> np.ndarray:
    blocks = random.integers(0, 256, (BLOCKS, gguf.GGML_QUANT_SIZES[kind][1]), np.uint8)
    for place in places:
        halves = random.normal(0, 0.01, BLOCKS).astype(np.float16)
        halves[-2:] = [random.integers(1, 1024) * 2.0**-24, 0 if place else -60.5]
        blocks[:, place : place + 2] = halves[:, None].view(np.uint8)
    return blocks


def main() -> None:
    random = np.random.default_rng(0)
    tensors = {}
    for name, places in TYPES.items():
        kind = gguf.GGMLQuantizationType[name]
        blocks = random_blocks(kind, places, random)
        tensors[f"{name}.blocks"] = blocks
        tensors[f"{name}.values"] = gguf.quants.dequantize(blocks, kind)
    file = pathlib.Path(__file__).resolve().parent / "blocks.safetensors"
    version = importlib.metadata.version("gguf")
    safetensors.numpy.save_file(tensors, file, {"made_by": f"make_blocks.py, gguf {version}"})
    file.chmod(0o644)


if __name__ == "__main__":
    main()
