"""A target's answers, with the probabilities of its most likely tokens, as files.

A shard is WORK/answers/NNNN.npz, of texts one after the other:
  prompt, answer            ids of all texts in one row each, int32
  prompt_lengths, answer_lengths   of each text
  top, top_logprobs         [tokens of all answers, TOP]: the most likely tokens at each place, of
                            the model itself at temperature 1; int32, float16
  source                    of each text: number of the source that its prompt is from
"""

import collections
import pathlib
import sys
import zipfile

import numpy as np

TOP = 20
Text = collections.namedtuple("Text", "source prompt answer top top_logprobs")


def write_shard(file: pathlib.Path, texts: list[Text]) -> None:
    part = file.with_name(file.name + ".part")
    with open(part, "wb") as stream:
        np.savez(
            stream,
            source=np.array([text.source for text in texts], np.int32),
            prompt=np.concatenate([text.prompt for text in texts]),
            answer=np.concatenate([text.answer for text in texts]),
            prompt_lengths=np.array([len(text.prompt) for text in texts], np.int32),
            answer_lengths=np.array([len(text.answer) for text in texts], np.int32),
            top=np.concatenate([text.top for text in texts]),
            top_logprobs=np.concatenate([text.top_logprobs for text in texts]),
        )
    part.replace(file)


def read_shards(folder: pathlib.Path) -> list[Text]:
    """All texts of a folder of answers, oldest first."""
    texts = []
    for file in sorted(folder.glob("*.npz")):
        try:
            with np.load(file) as shard:
                arrays = {name: shard[name] for name in shard.files}
        except (OSError, ValueError, zipfile.BadZipFile) as error:
            sys.exit(f"{file} is no shard of answers: {error}")
        prompts = np.split(arrays["prompt"], np.cumsum(arrays["prompt_lengths"])[:-1])
        ends = np.cumsum(arrays["answer_lengths"])[:-1]
        columns = (np.split(arrays[name], ends) for name in ("answer", "top", "top_logprobs"))
        texts += [Text(*row) for row in zip(arrays["source"], prompts, *columns)]
    return texts
