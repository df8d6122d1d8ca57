#!/usr/bin/env python3
"""Passes of Tandem's decoder beside those of llama.cpp: random weights in the same shapes and as
many bits, the same threads, interleaved.

  bench/model/llama_cpp.py setup FOLDER
      llama.cpp from the sources of llama-cpp-python on PyPI, built for this machine (some 10
      minutes of a core).
  bench/model/llama_cpp.py measure FOLDER [--shapes 0.5B,1B,7B] [--types F32,BF16,Q8_0,Q4_1]
                           [--contexts 128,2048] [--rows 1,5] [--files OURS,GGUF[,DTYPE]]
                           [--threads 2] [--rounds 9] [--build build/release] [--wait]
      --files: a model's files instead of random weights, Tandem's (a directory) and llama.cpp's;
      may be repeated.
      --wait: loads all, says "loaded", and measures after a line on the standard input.

F32, BF16, Q8_0 and Q4_1 stand beside --dtype=fp32, bf16, int8 and int4. Keys and values: 32 bits
for F32, 16 for the others (llama.cpp's fp16, ours bf16). A pass computes the logits of all its
rows. Ratios are of one round: minimum / median / maximum; below 1 ours is ahead. Needs cmake, ninja
and a C++ compiler; pass_turns of our build.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import time

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = "llama-cpp-python==0.3.36"
#         hidden  feed-forward  layers  heads  kv heads  vocabulary: as in shapes.h
SHAPES = {"135M": (576, 1536, 30, 9, 3, 49152), "0.5B": (896, 4864, 24, 14, 2, 151936), "1B": (2048, 8192, 16, 32, 8, 128256), "7B": (4096, 11008, 4, 32, 32, 32000)}
TYPES = {"F32": ("fp32", "fp32", "fp32"), "BF16": ("bf16", "bf16", "fp16"), "Q8_0": ("int8", "bf16", "fp16"),
         "Q4_1": ("int4", "bf16", "fp16")}  # ours, our cache, theirs


def run(*command, **options):
    print("+", *command, file=sys.stderr)
    subprocess.run([str(part) for part in command], check=True, **options)


def setup(folder):
    folder.mkdir(parents=True, exist_ok=True)
    python = folder / "venv/bin/python"
    if not python.exists():
        run(sys.executable, "-m", "venv", folder / "venv")
    # gguf writes the models; the others are what the sources' metadata asks for.
    run(python, "-m", "pip", "install", "-q", "gguf", "numpy", "scikit-build-core", "pyproject-metadata", "flit_core")
    if not list(folder.glob("llama_cpp_python-*/vendor/llama.cpp")):
        run(python, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:", "--no-build-isolation", "-d", folder, PACKAGE)
        run("tar", "xf", next(folder.glob("llama_cpp_python-*.tar.gz")), "-C", folder)
    sources = next(folder.glob("llama_cpp_python-*/vendor/llama.cpp"))
    build = folder / "build"
    run("cmake", "-G", "Ninja", "-S", sources, "-B", build, "-DCMAKE_BUILD_TYPE=Release", "-DBUILD_SHARED_LIBS=OFF", "-DGGML_NATIVE=ON",
        "-DCMAKE_C_FLAGS=-march=native", "-DCMAKE_CXX_FLAGS=-march=native", "-DLLAMA_BUILD_COMMON=OFF", "-DLLAMA_BUILD_TOOLS=OFF",
        "-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_EXAMPLES=OFF", "-DLLAMA_BUILD_SERVER=OFF", "-DLLAMA_BUILD_APP=OFF", stdout=subprocess.DEVNULL)
    run("ninja", "-C", build, "-j1", "llama")
    libraries = [build / "src/libllama.a"] + [build / f"ggml/src/lib{name}.a" for name in ("ggml", "ggml-cpu", "ggml-base")]
    run(os.environ.get("CXX", "c++"), "-O2", "-std=c++20", "-fopenmp", "-I", REPOSITORY, "-I", sources / "include", "-I", sources / "ggml/include",
        REPOSITORY / "bench/model/llama_pass.cc", *libraries, "-ldl", "-lpthread", "-o", folder / "llama_pass")


def write_gguf(path, shape, kind, context):
    """A model of Llama's form with tied embeddings, as bench/model/random_model.h makes it; blocks
    of rows repeat."""
    import gguf
    import numpy

    hidden, inner, layers, heads, kv_heads, vocabulary = shape
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(context)
    writer.add_embedding_length(hidden)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_rope_dimension_count(hidden // heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("no_vocab")
    writer.add_vocab_size(vocabulary)
    source = numpy.random.default_rng(7)
    quantization = getattr(gguf.GGMLQuantizationType, kind)

    def matrix(name, rows, columns):
        some = (source.standard_normal((256, columns)) * 0.02).astype(numpy.float32)
        block = some if kind == "F32" else gguf.quants.quantize(some, quantization)
        whole = numpy.tile(block, (-(-rows // 256), 1))[:rows]
        writer.add_tensor(name, whole, raw_dtype=None if kind == "F32" else quantization)

    def norm(name):
        writer.add_tensor(name, numpy.ones(hidden, dtype=numpy.float32))

    matrix("token_embd.weight", vocabulary, hidden)
    norm("output_norm.weight")
    kv = hidden // heads * kv_heads
    for layer in range(layers):
        for name in ("attn_norm", "ffn_norm"):
            norm(f"blk.{layer}.{name}.weight")
        for name, rows, columns in (("attn_q", hidden, hidden), ("attn_k", kv, hidden), ("attn_v", kv, hidden), ("attn_output", hidden, hidden),
                                    ("ffn_gate", inner, hidden), ("ffn_up", inner, hidden), ("ffn_down", hidden, inner)):
            matrix(f"blk.{layer}.{name}.weight", rows, columns)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


class Program:
    """Computes passes when it is asked to (bench/model/turns.h)."""

    def __init__(self, *command):
        self.process = subprocess.Popen([str(part) for part in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def line(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{self.process.args[0]} ended with {self.process.wait()}")
        return line

    def microseconds(self, context, rows):
        time.sleep(0.004)  # the other one's threads stop spinning
        self.process.stdin.write(f"{context} {rows}\n")
        self.process.stdin.flush()
        return float(self.line())

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def spread(values):
    values = sorted(values)
    return f"{values[0]:.2f} / {values[len(values) // 2]:.2f} / {values[-1]:.2f}"


def measure(options):
    folder, contexts, rows = options.folder, [int(c) for c in options.contexts.split(",")], [int(r) for r in options.rows.split(",")]
    if rows[0] != 1:
        sys.exit("--rows: the first is 1, which the others are compared with")
    pairs = []

    def start(name, kind, ours, dtype, cache, path, their_cache):
        pairs.append((name, kind, Program(REPOSITORY / options.build / "bench/pass_turns", ours, dtype, cache, options.threads, *contexts),
                      Program(folder / "llama_pass", path, their_cache, options.threads, *contexts)))
        for program in pairs[-1][2:]:
            program.line()

    for files in options.files:
        ours, path, *dtype = files.split(",")
        start(pathlib.Path(path).stem, *(dtype or ["auto"]), str(pathlib.Path(ours).resolve()), *(dtype or ["auto"]), "bf16", path, "fp16")
    for name in [] if options.files else options.shapes.split(","):
        for kind in options.types.split(","):
            path = folder / f"{name}-{kind}.gguf"
            if not path.exists():
                made = subprocess.run([folder / "venv/bin/python", __file__, "gguf", path, name, kind], check=False)
                if made.returncode != 0:
                    sys.exit(f"{path} was not written")
            ours, cache, theirs = TYPES[kind]
            start(name, kind, name, ours, cache, path, theirs)
    print("loaded", flush=True)
    if options.wait:
        input()
    print(f"{options.threads} threads, {options.rounds} rounds; ms are least / median; ratios ours to llama.cpp's of the same round, and to one row\n")
    print("| shape | type | context | rows | ours, ms | llama.cpp, ms | **ours to llama.cpp** | ours to one row | llama.cpp to one row |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, kind, ours, theirs in pairs:
        for context in contexts:
            times = {(who, r): [] for who in (0, 1) for r in rows}
            for turn in range(-1, options.rounds):
                for r in rows:
                    for who, program in enumerate((ours, theirs)):
                        took = program.microseconds(context, r)
                        if turn >= 0:  # the first warms up
                            times[who, r].append(took / 1000)
            for r in rows:
                ms = [f"{min(times[who, r]):.1f} / {sorted(times[who, r])[options.rounds // 2]:.1f}" for who in (0, 1)]
                print(f"| {name} | {kind} | {context} | {r} | {ms[0]} | {ms[1]} | "
                      + " | ".join([spread([a / b for a, b in zip(times[0, r], times[1, r])])]
                                   + [spread([a / b for a, b in zip(times[who, r], times[who, 1])]) for who in (0, 1)]) + " |", flush=True)
    for pair in pairs:
        for program in pair[2:]:
            program.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("setup").add_argument("folder", type=pathlib.Path)
    one = commands.add_parser("measure")
    one.add_argument("folder", type=pathlib.Path)
    for flag, default in (("shapes", "0.5B,1B,7B"), ("types", "F32,BF16,Q8_0,Q4_1"), ("contexts", "128,2048"), ("rows", "1,5"), ("build", "build/release")):
        one.add_argument(f"--{flag}", default=default)
    one.add_argument("--files", action="append", default=[])
    one.add_argument("--threads", type=int, default=2)
    one.add_argument("--rounds", type=int, default=9)
    one.add_argument("--wait", action="store_true")
    writer = commands.add_parser("gguf")
    writer.add_argument("path", type=pathlib.Path)
    writer.add_argument("shape", choices=SHAPES)
    writer.add_argument("kind", choices=TYPES)
    options = parser.parse_args()
    if options.command == "setup":
        setup(options.folder.resolve())
    elif options.command == "gguf":
        write_gguf(options.path, SHAPES[options.shape], options.kind, 16384)
    else:
        measure(options)


if __name__ == "__main__":
    main()
