#!/usr/bin/env python3
"""The tables of N-Grammys on prompt sets: tokens a call and speed by k guesses of w tokens.

    bench/draft/ngram_tables.py BENCH PROMPTS NGRAMS [--prompts=10] [--target-model=DIR]
    bench/draft/ngram_tables.py BENCH PROMPTS --lookahead [--prompts=10] [--target-model=DIR]

BENCH is a build's folder of benchmarks (build/release/bench), PROMPTS a folder as bench/draft/drafters.py takes
it, NGRAMS a file of `tandem derive-ngrams`. Writes the prompts down and runs BENCH/ngram_tables; with --lookahead
BENCH/lookahead_tables, which has Jacobi and lookahead decoding on the same texts.
"""

import argparse
import os
import subprocess
import sys
import tempfile

from drafters import DEMO, read_prompts


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("bench")
    parser.add_argument("place")
    parser.add_argument("ngrams", nargs="?")
    parser.add_argument("--lookahead", action="store_true")
    parser.add_argument("--prompts", type=int, default=10)
    parser.add_argument("--target-model", default=f"{DEMO}/target")
    arguments = parser.parse_args()
    if (arguments.ngrams is None) != arguments.lookahead:
        parser.error("give either NGRAMS or --lookahead")
    command = [os.path.join(arguments.bench, "lookahead_tables"), arguments.target_model]
    if not arguments.lookahead:
        command = [os.path.join(arguments.bench, "ngram_tables"), arguments.target_model, arguments.ngrams]
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for name, prompts in read_prompts(arguments.place, arguments.prompts).items():
            path = os.path.join(folder, name)
            with open(path, "w", encoding="utf-8") as file:
                file.writelines(prompt + "\0" for prompt in prompts)
            files.append(f"{name}={path}")
        return subprocess.run([*command, *files], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
