#!/usr/bin/env python3
"""Writes a model that says what a Llama model says, and whose passes are bound by memory.

    bench/serving/wide_target.py demo/target /tmp/wide --intermediate-size=16384

Each MLP gets further columns whose weights are zero. They add nothing to any sum, and a pass reads
them all the same. So a small pair has its own acceptance beside the pass times of a larger target.
"""
import argparse
import json
import pathlib
import shutil
import struct


def read(path):
    """(name, dtype, shape, bytes) of each tensor."""
    data = path.read_bytes()
    (size,) = struct.unpack_from("<Q", data)
    for name, entry in json.loads(data[8:8 + size]).items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        yield name, entry["dtype"], entry["shape"], data[8 + size + begin:8 + size + end]


def widened(name, shape, data, width):
    """More rows of what goes into an MLP, longer rows of what comes out of it."""
    rows, columns = shape if len(shape) == 2 else (shape[0], 1)
    item = len(data) // (rows * columns)
    if name.endswith(("gate_proj.weight", "up_proj.weight")):
        return [width, columns], data + bytes((width - rows) * columns * item)
    if name.endswith("down_proj.weight"):
        row = columns * item
        more = bytes((width - columns) * item)
        return [rows, width], b"".join(data[i * row:(i + 1) * row] + more for i in range(rows))
    return shape, data


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path, help="directory of a Llama model")
    parser.add_argument("out", type=pathlib.Path, help="directory that is written")
    parser.add_argument("--intermediate-size", type=int, default=16384)
    arguments = parser.parse_args()
    for name in ("config.json", "model.safetensors"):
        if not (arguments.model / name).is_file():
            parser.error(f"{arguments.model} has no {name}; it must be the directory of a model with one file of weights")
    config = json.loads((arguments.model / "config.json").read_text())
    if config["model_type"] != "llama":
        parser.error(f"{arguments.model} is of type {config['model_type']}; it must be llama")
    width = arguments.intermediate_size
    if width < config["intermediate_size"]:
        parser.error(f"--intermediate-size={width} is below the model's own, {config['intermediate_size']}")
    config["intermediate_size"] = width
    arguments.out.mkdir(parents=True, exist_ok=True)
    for file in arguments.model.iterdir():
        if file.suffix != ".safetensors" and file.name != "config.json":
            shutil.copy(file, arguments.out)
    (arguments.out / "config.json").write_text(json.dumps(config, indent=2))
    header, parts, offset = {}, [], 0
    for name, dtype, shape, data in read(arguments.model / "model.safetensors"):
        shape, data = widened(name, shape, data, width)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
        parts.append(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(arguments.out / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.writelines(parts)


main()
