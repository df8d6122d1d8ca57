"""What a draft learns from a target's answers: batches of them, the loss, and what is accepted."""

import dataclasses

import numpy as np
import torch

from answers import Text


@dataclasses.dataclass
class Batch:
    """Texts of about one length. Places are those before which the target chose a token."""

    ids: torch.Tensor  # [texts, tokens], int64, padded at the end
    at: torch.Tensor  # [texts, tokens], whether it is a place
    rows: torch.Tensor  # [places, TOP]: rows of the draft's output; 0 where it has none
    p: (
        torch.Tensor
    )  # [places, TOP]: the target's probabilities, among the tokens that the draft has
    tail: torch.Tensor  # [places]: that of all others together
    greatest: torch.Tensor  # [places]: the row of the most likely token; -1: the output has none


class Batches:
    """Batches of texts. `kept`: ids of the output's tokens; `vocabulary`: how many there are."""

    def __init__(
        self, texts: list[Text], kept: np.ndarray, vocabulary: int, tokens: int, device: str
    ):
        self.texts, self.tokens, self.device = texts, tokens, device
        self.row_of = np.full(vocabulary, -1, np.int64)
        self.row_of[kept] = np.arange(len(kept))

    def order(self, random: np.random.Generator) -> list[list[int]]:
        """The texts of each batch of an epoch: of one length, in another order each time."""
        lengths = np.array([len(text.prompt) + len(text.answer) for text in self.texts])
        batches, batch = [], []
        for index in np.argsort(lengths + random.integers(0, 24, len(lengths))):
            if batch and (len(batch) + 1) * max(lengths[batch + [index]]) > self.tokens:
                batches.append(batch)
                batch = []
            batch.append(index)
        batches.append(batch)
        return [batches[i] for i in random.permutation(len(batches))]

    def make(self, indices: list[int]) -> Batch:
        texts = [self.texts[index] for index in indices]
        longest = max(len(text.prompt) + len(text.answer) - 1 for text in texts)
        ids = np.zeros((len(texts), longest), np.int64)
        at = np.zeros((len(texts), longest), bool)
        for row, text in enumerate(texts):
            whole = np.concatenate([text.prompt, text.answer[:-1]])
            ids[row, : len(whole)] = whole
            at[row, len(text.prompt) - 1 : len(whole)] = True
        top = np.concatenate([text.top for text in texts])
        p = np.exp(np.concatenate([text.top_logprobs for text in texts]).astype(np.float32))
        tail = (1 - p.sum(1)).clip(0)
        rows = self.row_of[top]
        p = np.where(rows >= 0, p, 0)
        whole = (p.sum(1) + tail).clip(1e-6)
        arrays = (ids, at, rows.clip(0), p / whole[:, None], tail / whole, rows[:, 0])
        return Batch(*(torch.from_numpy(array).to(self.device) for array in arrays))


def kept_tokens(texts: list[Text], vocabulary: int, keep: int, always: list[int]) -> np.ndarray:
    """The `keep` tokens that the target is the likeliest to write, and the special ones; ascending.

    By the sum of their probabilities over all answers: it knows more tokens than were drawn."""
    weight = np.zeros(vocabulary)
    for text in texts:
        np.add.at(weight, text.top, np.exp(text.top_logprobs.astype(np.float64)))
        np.add.at(weight, text.prompt, 1e-3)
    weight[always] = np.inf
    return np.sort(np.argsort(-weight, kind="stable")[:keep])


def loss_of(
    logits: torch.Tensor, batch: Batch, variation: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """KL(target || draft) + variation x total variation, a place; and the mean of sum min(p, q).

    What is known of p is its most likely tokens; the others are one outcome together."""
    q_log = logits.log_softmax(-1).gather(1, batch.rows)
    q = q_log.exp().masked_fill(batch.p == 0, 0)
    q_tail = (1 - q.sum(1)).clamp_min(1e-6)
    divergence = (torch.special.xlogy(batch.p, batch.p) - batch.p * q_log).sum(1)
    divergence = divergence + torch.special.xlogy(batch.tail, batch.tail)
    divergence = divergence - batch.tail * q_tail.log()
    accepted = torch.minimum(batch.p, q).sum(1)
    rejected = 1 - accepted - torch.minimum(batch.tail, q_tail)
    loss = divergence + variation * rejected
    return loss.mean(), accepted.mean().detach()


def accepted_at(
    logits: torch.Tensor, text: Text, rows: torch.Tensor, temperature: float
) -> torch.Tensor:
    """[places]: the chance that speculative sampling accepts what the draft draws, sum min(p, q),
    over the target's most likely tokens alone, so at least that; at temperature 0 whether both
    models' best token is the same. `rows` [places, TOP]: the output's rows of these tokens; -1:
    none."""
    if not temperature:
        return (logits.argmax(-1) == rows[:, 0]).float()
    known = torch.from_numpy(text.top_logprobs.astype(np.float32))
    tail = (1 - known.exp().sum(1, keepdim=True)).clamp_min(1e-9)
    # None of the others is likelier than the last of those that are known.
    others = tail.log() + known[:, -1:].clamp_min(-20) * (1 / temperature - 1)
    p = torch.cat([known / temperature, others], 1).softmax(-1)[:, :-1]
    q = (logits / temperature).softmax(-1).gather(1, rows.clamp_min(0))
    return torch.minimum(p, q.masked_fill(rows < 0, 0)).sum(-1)
