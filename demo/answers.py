"""Asks a target for answers, by Tandem's service."""

import collections
import concurrent.futures
import pathlib
import sys
import time

import numpy as np
from tandem_client import Client, TandemError

from texts import TOP, Text, write_shard

TEMPERATURES = (0.0, 0.7, 1.0)  # of a prompt's answers, one after the other


def user_turn(tokenizer) -> list[int]:
    """The ids before a user's message: after them the target writes such a message itself."""
    mark = "\x01message\x01"
    text = tokenizer.apply_chat_template([{"role": "user", "content": mark}], tokenize=False)
    return tokenizer.encode(text.split(mark)[0], add_special_tokens=False)


def chat_ids(tokenizer, messages: list[dict]) -> list[int]:
    return tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)


def own_prompt(client: Client, tokenizer, before: list[int], seed: int) -> list[dict] | None:
    """A user's message as the target writes it; None if it came to no end."""
    result = client.generate(before, max_tokens=120, temperature=1.0, seed=seed, draft_tokens=0)
    if result.finish_reason != "stop" or not result.text.strip():
        return None
    return [{"role": "user", "content": result.text}]


def answer(
    client: Client, prompt: list[int], most: int, temperature: float, seed: int, source: int
):
    """The target's answer to a prompt as a Text."""
    result = client.generate(
        prompt, max_tokens=most, temperature=temperature, seed=seed, logprobs=TOP, draft_tokens=0
    )
    ids = result.token_ids
    top = np.zeros((len(ids), TOP), np.int32)
    logprobs = np.full((len(ids), TOP), -np.inf, np.float16)
    for place, token in enumerate(result.samples[0].logprobs):
        for column, choice in enumerate(token.top[:TOP]):
            top[place, column], logprobs[place, column] = choice.token_id, choice.logprob
    return Text(source, np.array(prompt, np.int32), np.array(ids, np.int32), top, logprobs)


def all_of(jobs: list, at_once: int) -> list:
    """What the jobs return, in their order."""
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        return results(pool, [pool.submit(job) for job in jobs])


def results(pool: concurrent.futures.Executor, running: list) -> list:
    """What these return, in their order."""
    try:
        return [run.result() for run in running]
    except TandemError as error:
        pool.shutdown(cancel_futures=True)
        sys.exit(f"the service refused: {error}")


def gather(client: Client, folder: pathlib.Path, jobs: list, at_once: int, texts_a_shard: int = 96):
    """Does the jobs, functions that return a Text or None, a shard after the other. A shard that is
    there already is not made again, so that an interrupted run goes on."""
    folder.mkdir(parents=True, exist_ok=True)
    shards = [jobs[i : i + texts_a_shard] for i in range(0, len(jobs), texts_a_shard)]
    begin, tokens = time.monotonic(), 0
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        # The next shard's texts begin while the last of this one end.
        def submit(number: int):
            file = folder / f"{number:04}.npz"
            return file, file.exists() or [pool.submit(job) for job in shards[number]]

        ahead = collections.deque(submit(number) for number in range(min(2, len(shards))))
        for number in range(len(shards)):
            file, running = ahead.popleft()
            if running is not True:
                texts = [text for text in results(pool, running) if text is not None]
                if texts:
                    write_shard(file, texts)
                tokens += sum(len(text.answer) for text in texts)
                seconds = time.monotonic() - begin
                print(
                    f"shard {number + 1} of {len(shards)}: {tokens:,} tokens of answers, "
                    f"{tokens / seconds:.0f} per second",
                    flush=True,
                )
            if number + 2 < len(shards):
                ahead.append(submit(number + 2))
