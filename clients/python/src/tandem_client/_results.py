# SPDX-License-Identifier: Apache-2.0
"""What a request gives. Plain values.

Records of the service (Started, Usage, AcceptanceRecord, Timing, RoundRecord) are its own messages:
proto/tandem/v1/generation.proto describes their fields.
"""

from __future__ import annotations

import dataclasses
from typing import Optional, Tuple

from tandem_client._messages import Message
from tandem_client import v1 as pb


@dataclasses.dataclass(frozen=True)
class TopLogprob:
    """One of the most likely tokens at a position."""

    token_id: int
    logprob: float  # natural; minus infinity where the probability is 0
    token: bytes  # may end within a character; empty with token_bytes=False


@dataclasses.dataclass(frozen=True)
class TokenLogprob:
    """A token and its log probability, given all tokens before it."""

    token_id: int
    logprob: float
    token: bytes  # as in TopLogprob
    top: Tuple[TopLogprob, ...]  # most likely first; empty: none were asked for


@dataclasses.dataclass(frozen=True)
class TextRun:
    """Text of one origin. A character of several tokens belongs to the last of them."""

    text: str  # not empty
    accepted: bool  # from accepted draft tokens; False: from the target's own tokens


@dataclasses.dataclass(frozen=True)
class Delta:
    """Some more of a text. A token's text may come in a later delta than its id."""

    sample: int  # 0 to samples - 1
    text: str  # may be empty
    token_ids: Tuple[int, ...]  # may be empty
    logprobs: Tuple[TokenLogprob, ...]  # one for each id, or none
    token_bytes: Tuple[bytes, ...]  # the same
    text_runs: Tuple[TextRun, ...]  # together the text, or none


@dataclasses.dataclass(frozen=True)
class Sample:
    """One of the texts."""

    index: int
    text: str
    token_ids: Tuple[int, ...]  # with the end-of-text token, without output_prefix_ids
    logprobs: Tuple[TokenLogprob, ...]
    token_bytes: Tuple[bytes, ...]  # one for each id, or none
    text_runs: Tuple[TextRun, ...]  # together the text; empty: not requested
    finish_reason: Optional[str]  # "stop" or "length"; None: it has not ended
    stop_string: str  # which of `stop` ended it; empty: none
    record: pb.AcceptanceRecord

    @property
    def message(self) -> Message:
        """The text as the assistant's turn, to go on with a conversation."""
        return {"role": "assistant", "content": self.text}


@dataclasses.dataclass(frozen=True)
class Result:
    """A whole request. Of one that was resumed, `record` and `timing` lack what a lost orchestrator
    did not tell."""

    started: pb.Started  # what is in force: seed, rule, exact, models, options
    samples: Tuple[Sample, ...]
    prompt_logprobs: Tuple[TokenLogprob, ...]  # from the second token on; empty: not requested
    rounds: Tuple[pb.RoundRecord, ...]  # empty: not requested
    usage: pb.Usage
    record: pb.AcceptanceRecord  # of all samples, added up
    timing: pb.Timing  # as the last orchestrator measured it
    resumed: int  # how often its orchestrator was lost

    @property
    def text(self) -> str:
        return self.samples[0].text

    @property
    def token_ids(self) -> Tuple[int, ...]:
        return self.samples[0].token_ids

    @property
    def finish_reason(self) -> Optional[str]:
        return self.samples[0].finish_reason

    @property
    def message(self) -> Message:
        return self.samples[0].message

    @property
    def acceptance_rate(self) -> float:
        """The chance that a draft token is accepted; 0 when nothing was drafted.

        accepted / drafted is something else, for it counts draft tokens that were never tested.
        """
        tested = self.record.accepted_tokens + self.record.rejected_rounds
        return self.record.accepted_tokens / tested if tested else 0.0
