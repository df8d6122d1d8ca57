#!/usr/bin/env python3
"""Tokens per target pass, by drafter and by kind of prompt.

    bench/draft/drafters.py BIN PROMPTS [--texts=FILE] [--target-model=DIR] [--dtype=NAME]
        [--draft-model=DIR] [--ngram-corpus=FILE] [--ngrams=FILE] [--recall-tokens=N]
        [--drafters=a,b,...] [--prompts=20] [--max-tokens=64] [--draft-tokens=4]
        [--temperatures=0,0.7] [--rule=speculative] [--raw]

BIN has the programs of a build (build/release/bin). PROMPTS is a folder with any of these files, as
their authors publish them: humaneval/HumanEval.jsonl.gz, gsm8k/test.jsonl, mt_bench/question.jsonl.
A file in its place is read as one prompt per line. --texts, .txt or .txt.xz, adds passages of it to
be summarised. Starts `tandem serve`, and sends each prompt once per drafter and temperature, the
drafters, one after the other: to a model with a chat template as a message, until its answer ends;
to any other one, and with --raw, as a text to continue, and end tokens do not end it. Cells have
the temperatures' values with a slash between them. A count of passes does not depend on how busy
the machine is, unless blocks come too late (rounds without their draft are counted in the last
column), or the drafter is `auto`, which chooses by times.
"""

import argparse
import collections
import gzip
import json
import lzma
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

DEMO = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../demo")
# File, prompt of a row, and what a chat asks for with it.
SETS = {"HumanEval": ("humaneval/HumanEval.jsonl.gz", lambda row: row["prompt"],
                      "Complete this Python function:\n\n```python\n{}```"),
        "GSM8K": ("gsm8k/test.jsonl", lambda row: row["question"], "{}"),
        "MT-Bench": ("mt_bench/question.jsonl", lambda row: row["turns"][0], "{}")}
SUMMARY = "Summarise the following text in a few sentences.\n\n{}"
PASSAGE = 1200  # characters
OPENERS = {".gz": gzip.open, ".xz": lzma.open}
Counts = collections.namedtuple("Counts", "tokens rounds drafted accepted late")
NONE = Counts(0, 0, 0, 0, 0)


def read_text(path):
    with OPENERS.get(os.path.splitext(path)[1], open)(path, "rt", encoding="utf-8") as file:
        return file.read()


def read_prompts(arguments, chat):
    """By name of the set; as many of each, spread over the file."""
    place, count, sets = arguments.place, arguments.prompts, {}
    if os.path.isfile(place):
        sets[os.path.basename(place)] = [line for line in read_text(place).splitlines() if line]
    for name, (file, text, task) in SETS.items():
        path = os.path.join(place, file)
        if os.path.exists(path):
            texts = [text(json.loads(row)) for row in read_text(path).splitlines()]
            sets[name] = [task.format(text) for text in texts] if chat else texts
    if arguments.texts:
        text = read_text(arguments.texts)
        apart = max(PASSAGE, len(text) // count)
        sets["summaries"] = [SUMMARY.format(text[at:at + PASSAGE])
                             for at in range(0, len(text) - PASSAGE + 1, apart)]
    if not sets:
        sys.exit(f"{place}: has none of {', '.join(file for file, *_ in SETS.values())}")
    return {name: prompts[::max(1, len(prompts) // count)][:count] for name, prompts in sets.items()}


class Server:
    def __init__(self, arguments, flags):
        self.folder = tempfile.TemporaryDirectory()
        port = os.path.join(self.folder.name, "port")
        self.process = subprocess.Popen(
            [os.path.join(arguments.bin, "tandem"), "serve", "--listen=127.0.0.1:0",
             "--http-listen=127.0.0.1:0", f"--http-port-file={port}", "--log-level=warning",
             f"--target-model={arguments.target_model}", f"--dtype={arguments.dtype}", *flags])
        while not (os.path.exists(port) and read_text(port).strip()):
            if self.process.poll() is not None:
                sys.exit("tandem serve has ended")
            time.sleep(0.1)
        self.address = f"http://127.0.0.1:{read_text(port).strip()}/v1/"

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.process.kill()
        self.process.wait()
        self.folder.cleanup()

    def ask(self, path, body=None):
        request = urllib.request.Request(
            self.address + path, data=json.dumps(body).encode() if body else None,
            headers={"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)


def generate(arguments, server, chat, drafter, temperature, prompt, seed):
    """What a request counted; None: the prompt does not fit the model."""
    body = {"model": arguments.model, "max_tokens": arguments.max_tokens, "seed": seed,
            "temperature": temperature, "ignore_eos": not chat,
            # With a scope `recall` remembers, and a prompt is read once for all drafters. Each
            # temperature has its own: else `recall` would know an answer to the same prompt.
            "tandem": {"drafter": drafter, "draft_tokens": arguments.draft_tokens,
                       "cache_scope": f"temperature {temperature}"}}
    if temperature > 0:
        body["tandem"]["rule"] = arguments.rule
    try:
        if chat:
            body["messages"] = [{"role": "user", "content": prompt}]
            usage = server.ask("chat/completions", body)["usage"]
        else:
            usage = server.ask("completions", {**body, "prompt": prompt})["usage"]
    except urllib.error.HTTPError as error:
        print(f"left out: {error.read().decode()[:300]}", file=sys.stderr)
        return None
    record = usage["speculation"]
    late = sum(number for cause, number in record.get("rounds_without_draft", {}).items()
               if "late" in cause or "deadline" in cause or "timeout" in cause)
    return Counts(usage["completion_tokens"], record["rounds"], record["draft_tokens"],
                  record["accepted_tokens"], late)


def total(counts):
    return Counts(*(sum(values) for values in zip(NONE, *counts)))


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("bin")
    parser.add_argument("place")
    parser.add_argument("--texts", default="")
    parser.add_argument("--target-model", default=f"{DEMO}/target")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--draft-model", default="")
    parser.add_argument("--ngram-corpus", default="")
    parser.add_argument("--ngrams", default="")
    parser.add_argument("--recall-tokens", default="")
    parser.add_argument("--prompts", type=int, default=20)
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--draft-tokens", type=int, default=4)
    parser.add_argument("--drafters", default="")
    parser.add_argument("--temperatures", default="0")
    parser.add_argument("--rule", default="speculative")
    parser.add_argument("--raw", action="store_true")
    arguments = parser.parse_args()
    temperatures = [float(one) for one in arguments.temperatures.split(",")]
    flags = [f"--{flag.replace('_', '-')}={getattr(arguments, flag)}"
             for flag in ("draft_model", "recall_tokens", "ngram_corpus", "ngrams")
             if getattr(arguments, flag)]
    sums = collections.defaultdict(lambda: NONE)  # by drafter, set and temperature
    with Server(arguments, flags) as server:
        model = server.ask("models")["data"][0]
        arguments.model = model["id"]
        chat = model["tandem"]["chat_template"] and not arguments.raw
        drafters = arguments.drafters.split(",") if arguments.drafters else [
            *model["tandem"]["drafters"], "auto"]
        sets = read_prompts(arguments, chat)
        for name, prompts in sets.items():
            for seed, prompt in enumerate(prompts):
                requests = [(drafter, temperature) for temperature in temperatures
                            for drafter in drafters]
                for drafter, temperature in requests:
                    counts = generate(arguments, server, chat, drafter, temperature, prompt, seed)
                    if counts is None:
                        break
                    cell = drafter, name, temperature
                    sums[cell] = total([sums[cell], counts])
            print(f"{name}: done", file=sys.stderr)

    def cell(show, drafter, names):
        return " / ".join(show(total(sums[drafter, name, temperature] for name in names))
                          for temperature in temperatures)

    print("| drafter | " + " | ".join(sets) + " | all | accepted of drafted | late |")
    print("|---|" + "---|" * (len(sets) + 3))
    for drafter in drafters:
        cells = [cell(lambda one: f"{one.tokens / max(1, one.rounds):.2f}", drafter, names)
                 for names in (*([name] for name in sets), sets)]
        accepted = cell(lambda one: f"{one.accepted} of {one.drafted} "
                        f"({100 * one.accepted / max(1, one.drafted):.0f} %)", drafter, sets)
        late = cell(lambda one: str(one.late), drafter, sets)
        print(f"| `{drafter}` | " + " | ".join(cells) + f" | {accepted} | {late} |")


if __name__ == "__main__":
    main()
