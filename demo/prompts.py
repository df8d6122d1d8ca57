"""Prompts for a target: from files, as its chat template has them, and from the target itself."""

import gzip
import json
import lzma
import pathlib
import random
import sys
from collections.abc import Iterator

END_OF_TEXT = "<|endoftext|>"
HELD_OUT = 3  # every third prompt of a file is for evaluation alone
PASSAGE = 700  # characters of a document in a prompt
TASKS = (
    "Summarize the following text in a few sentences:\n\n{}",
    "{}\n\nExplain what this text says, for someone who does not know the subject.",
    "Rewrite the following text in simpler words:\n\n{}",
    "Continue this text:\n\n{}",
    "Read this and answer: what is it about, and which points does it make?\n\n{}",
)


def open_text(file: pathlib.Path):
    """A text file in UTF-8, of .gz and .xz what is in it."""
    opener = {".gz": gzip.open, ".xz": lzma.open}.get(file.suffix, open)
    return opener(file, "rt", encoding="utf-8")


def read_documents(file: pathlib.Path) -> list[str]:
    """The documents of a text file, parted by END_OF_TEXT."""
    with open_text(file) as stream:
        parts = (part.strip("\n") for part in stream.read().split(END_OF_TEXT))
    return [part for part in parts if part]


def passages(documents: list[str], count: int, seed: int) -> list[str]:
    """Prompts about passages from anywhere in the documents, `count` in all."""
    draw = random.Random(seed)
    whole = [document for document in documents if len(document) > 2 * PASSAGE]
    prompts = []
    while whole and len(prompts) < count:
        document = draw.choice(whole)
        start = draw.randrange(len(document) - PASSAGE)
        part = document[start : start + draw.randrange(PASSAGE // 3, PASSAGE)]
        lines = part.split("\n")  # a passage begins and ends with a whole word or line
        part = "\n".join(lines[1:-1]) if len(lines) > 4 else " ".join(part.split(" ")[1:-1])
        if len(part.split()) > 20:
            prompts.append(TASKS[len(prompts) % len(TASKS)].format(part.strip()))
    return prompts


def message_of(row: dict, where: str) -> list[dict]:
    """The conversation of a row of a file of prompts."""
    if isinstance(row.get("messages"), list):
        return row["messages"]
    for name in ("turns", "question", "prompt"):
        value = row.get(name)
        value = value[0] if isinstance(value, list) and value else value
        if isinstance(value, str) and value.strip():
            return [{"role": "user", "content": value}]
    sys.exit(
        f"{where}: a row needs one of turns, question, prompt and messages; it has {list(row)}"
    )


def read_prompts(file: pathlib.Path, passages_per_file: int = 3000) -> list[list[dict]]:
    """The conversations of a file, in a fixed order."""
    if not file.is_file():
        sys.exit(f"--prompts: {file} is no file")
    kind = file.name.removesuffix(".gz").removesuffix(".xz").rsplit(".", 1)[-1]
    if kind == "txt":
        texts = passages(read_documents(file), passages_per_file, seed=1)
        return [[{"role": "user", "content": text}] for text in texts]
    if kind != "jsonl":
        sys.exit(f"--prompts: {file} is neither .jsonl nor .txt (.gz and .xz may follow)")
    with open_text(file) as stream:
        rows = [line for line in stream if line.strip()]
    prompts = []
    for number, line in enumerate(rows, 1):
        try:
            prompts.append(message_of(json.loads(line), f"{file}:{number}"))
        except json.JSONDecodeError as error:
            sys.exit(f"{file}:{number}: no JSON: {error}")
    return prompts


def split(prompts: list, held_out: bool) -> list:
    """Those for training, or those that are held out."""
    return [p for i, p in enumerate(prompts) if (i % HELD_OUT == HELD_OUT - 1) == held_out]


def spread(prompts: list, count: int) -> list:
    """So many of them, from all over the list."""
    return prompts[:: max(1, len(prompts) // count)][:count]


def in_turn(sources: list[list], rounds: int) -> Iterator[tuple]:
    """One of each source after the other: (source, index, round). Each comes `rounds` times."""
    places = [0] * len(sources)
    left = True
    while left:
        left = False
        for number, source in enumerate(sources):
            if places[number] < rounds * len(source):
                left = True
                yield number, places[number] % len(source), places[number] // len(source)
                places[number] += 1
