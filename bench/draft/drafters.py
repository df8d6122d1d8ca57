#!/usr/bin/env python3
"""Tokens a target pass, by drafter and by kind of prompt.

    bench/draft/drafters.py BIN PROMPTS [--draft-model=DIR] [--ngram-corpus=FILE] [--ngrams=FILE]
        [--prompts=20] [--max-tokens=64] [--draft-tokens=4] [--target-model=DIR]
        [--drafters=a,b,...] [flags of tandem generate]

BIN has the programs of a build (build/release/bin). PROMPTS is a folder with any of these files, as
their authors publish them: humaneval/HumanEval.jsonl.gz, gsm8k/test.jsonl, mt_bench/question.jsonl.
A file in its place is read as one prompt a line. Starts `tandem serve`, and sends each prompt once a
drafter, the drafters in turn. A count of passes does not depend on how busy the machine is, unless
blocks come too late: rounds without their draft are counted in the last column.
"""

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
import time

DEMO = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../demo")
SETS = {"HumanEval": ("humaneval/HumanEval.jsonl.gz", lambda row: row["prompt"]),
        "GSM8K": ("gsm8k/test.jsonl", lambda row: row["question"]),
        "MT-Bench": ("mt_bench/question.jsonl", lambda row: row["turns"][0])}


def read_prompts(place, count):
    """By name of the set; as many of each, spread over the file."""
    sets = {}
    if os.path.isfile(place):
        with open(place, encoding="utf-8") as lines:
            sets[os.path.basename(place)] = [line.rstrip("\n") for line in lines if line.strip()]
    for name, (path, text) in SETS.items():
        path = os.path.join(place, path)
        if os.path.exists(path):
            with (gzip.open if path.endswith(".gz") else open)(path, "rt", encoding="utf-8") as rows:
                sets[name] = [text(json.loads(row)) for row in rows]
    if not sets:
        sys.exit(f"{place}: has none of {', '.join(path for path, _ in SETS.values())}")
    return {name: prompts[::max(1, len(prompts) // count)][:count] for name, prompts in sets.items()}


class Server:
    def __init__(self, arguments, flags):
        self.folder = tempfile.TemporaryDirectory()
        port = os.path.join(self.folder.name, "port")
        self.process = subprocess.Popen(
            [os.path.join(arguments.bin, "tandem"), "serve", "--listen=127.0.0.1:0",
             f"--port-file={port}", f"--target-model={arguments.target_model}", *flags])
        while not (os.path.exists(port) and open(port, encoding="ascii").read().strip()):
            if self.process.poll() is not None:
                sys.exit("tandem serve has ended")
            time.sleep(0.1)
        with open(port, encoding="ascii") as file:
            self.address = f"127.0.0.1:{file.read().strip()}"

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.process.kill()
        self.process.wait()
        self.folder.cleanup()


def generate(arguments, more, server, drafter, prompt):
    """The record of a request; None: the prompt does not fit the model."""
    result = subprocess.run(
        [os.path.join(arguments.bin, "tandem"), "generate", f"--orchestrator={server.address}",
         "--prompt-file=-", f"--max-tokens={arguments.max_tokens}", f"--drafter={drafter}",
         f"--draft-tokens={arguments.draft_tokens}", "--format=json", "--ignore-eos", *more],
        input=prompt, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        print(f"left out: {result.stderr.strip()[:200]}", file=sys.stderr)
        return None
    last = json.loads(result.stdout.strip().splitlines()[-1])
    return last["usage"]["completion_tokens"], last["speculation"]


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("bin")
    parser.add_argument("place")
    parser.add_argument("--target-model", default=f"{DEMO}/target")
    parser.add_argument("--draft-model", default="")
    parser.add_argument("--ngram-corpus", default="")
    parser.add_argument("--ngrams", default="")
    parser.add_argument("--recall-tokens", default="")
    parser.add_argument("--prompts", type=int, default=20)
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--draft-tokens", default="4")
    parser.add_argument("--drafters", default="")
    arguments, more = parser.parse_known_args()
    if not any(flag.startswith("--temperature") for flag in more):
        more.append("--temperature=0")
    drafters = ["prompt-lookup", "context-ngram"]
    flags = []
    for flag, names in (("draft_model", ["model", "cascade"]), ("recall_tokens", ["recall"]),
                        ("ngram_corpus", ["corpus-unigram", "corpus-bigram"]),
                        ("ngrams", ["derived-unigram", "derived-bigram", "derived-extended"])):
        if getattr(arguments, flag):
            flags.append(f"--{flag.replace('_', '-')}={getattr(arguments, flag)}")
            drafters += names
    if arguments.ngram_corpus or arguments.ngrams:
        drafters.append("mixed")
    if arguments.drafters:
        drafters = arguments.drafters.split(",")
    sets = read_prompts(arguments.place, arguments.prompts)
    sums = {}
    with Server(arguments, flags) as server:
        for name, prompts in sets.items():
            for prompt in prompts:
                for drafter in drafters:
                    record = generate(arguments, more, server, drafter, prompt)
                    if record is None:
                        break
                    tokens, speculation = record
                    sum_ = sums.setdefault((drafter, name), [0, 0, 0, 0, 0])
                    for i, value in enumerate(
                            (tokens, speculation["rounds"], speculation["draft_tokens"],
                             speculation["accepted_tokens"],
                             sum(v for cause, v in speculation["rounds_without_draft"].items()
                                 if "late" in cause or "deadline" in cause or "timeout" in cause))):
                        sum_[i] += value
    print("| drafter | " + " | ".join(sets) + " | all | accepted of drafted | late |")
    print("|---|" + "---|" * (len(sets) + 3))
    for drafter in drafters:
        of = [sums.get((drafter, name), [0, 0, 0, 0, 0]) for name in sets]
        every = [sum(values) for values in zip(*of)]
        cells = [f"{s[0] / max(1, s[1]):.2f}" for s in (*of, every)]
        print(f"| `{drafter}` | " + " | ".join(cells) +
              f" | {every[3]} of {every[2]} ({100 * every[3] / max(1, every[2]):.0f} %)"
              f" | {every[4]} |")


if __name__ == "__main__":
    main()
