# SPDX-License-Identifier: Apache-2.0
"""A request over all the calls that it takes, without any of gRPC's: what to ask for next, and what
has come.

    first call ──▶ ended in order ──▶ the result
        │
        └─ the orchestrator is lost ──▶ a call for each text that has not ended, one after another

A call that resumes carries the output that came already, with the seed and the rule that were in
force. So the same ids follow under the rules greedy and coupled, and under the others a text that
is as good. """

from __future__ import annotations

import dataclasses
import time
from typing import Any, Callable, List, Optional, Tuple

import grpc

from tandem_client import _records
from tandem_client._errors import (
    Cancelled,
    DeadlineExceeded,
    InternalError,
    InvalidRequest,
    ModelChanged,
    TandemError,
)
from tandem_client._results import Delta, Result, Sample, TextRun, TokenLogprob, TopLogprob
from tandem_client import v1 as pb

# CANCELLED: gRPC's own server says so of calls that reach it while it shuts down. (What the caller
# cancels does not come here.)
_LOST = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
_FIRST_WAIT, _MAX_WAIT = 0.1, 2.0  # seconds
# The service says so of a text that had ended when its orchestrator was lost.
_ENDED = "output_prefix_ids: the text ends"


@dataclasses.dataclass
class _Text:
    index: int
    text: List[str] = dataclasses.field(default_factory=list)
    token_ids: List[int] = dataclasses.field(default_factory=list)
    logprobs: List[TokenLogprob] = dataclasses.field(default_factory=list)
    token_bytes: List[bytes] = dataclasses.field(default_factory=list)
    text_runs: List[TextRun] = dataclasses.field(default_factory=list)
    end: Optional[pb.SampleEnd] = None


class Session:
    """Not thread-safe. `patience`: seconds without progress after which a lost request is given up;
    0: at once."""

    def __init__(self, request: pb.GenerateRequest, timeout: Optional[float], patience: float,
                 now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._timeout = timeout
        self._deadline: Optional[float] = None
        self._patience = patience
        self._request = request
        self._texts = [_Text(index) for index in range(max(1, request.samples))]
        self._asked = self._texts  # by the present call
        self._call_started: Optional[pb.Started] = None
        self._started: Optional[pb.Started] = None
        self._prompt: List[TokenLogprob] = []
        self._rounds: List[pb.RoundRecord] = []
        self._lasts: List[pb.Last] = []
        self._resumed = 0
        self._lost_at: Optional[float] = None  # since then nothing has come
        self._wait = _FIRST_WAIT

    @property
    def started(self) -> Optional[pb.Started]:
        return self._started

    def next_call(self) -> Tuple[pb.GenerateRequest, Optional[float]]:
        """The request, and the seconds that it may take. The first call's begins the whole
        request's time."""
        timeout = self._timeout
        if timeout is not None:
            if self._deadline is None:
                self._deadline = self._now() + timeout
            timeout = self._deadline - self._now()
            if timeout <= 0:
                raise self._with_partial(
                    DeadlineExceeded("the timeout is over", grpc.StatusCode.DEADLINE_EXCEEDED))
        self._call_started = None
        if self._started is None:
            return self._request, timeout
        self._asked = [next(text for text in self._texts if text.end is None)]
        return self._request_for(self._asked[0], self._started), timeout

    def on_reply(self, reply: pb.GenerateReply) -> Optional[Delta]:
        """What the caller is to see of it."""
        self._lost_at = None
        self._wait = _FIRST_WAIT
        kind = reply.WhichOneof("kind")
        if kind == "started":
            self._on_started(reply.started)
        elif kind == "delta":
            return self._on_delta(reply.delta)
        elif kind == "prompt_logprobs":
            part = reply.prompt_logprobs
            self._prompt += _logprobs(part.token_ids, part.logprobs, part.top, part.token_bytes)
        elif kind == "round":
            self._rounds.append(reply.round)
            self._rounds[-1].sample_index = self._text_of(reply.round.sample_index).index
        elif kind == "last":
            self._on_last(reply.last)
        return None  # None of these: it is from a newer service

    def on_end(self) -> bool:
        """The call has ended in order. True: another one is required."""
        if self._started is None or any(text.end is None for text in self._asked):
            raise self._with_partial(InternalError("the stream ended without its last message"))
        return any(text.end is None for text in self._texts)

    def on_error(self, error: TandemError) -> float:
        """The call has failed. Returns the seconds to wait before the next one, or raises; then
        nothing follows.

        Negative: no call is required, for all texts have ended.
        """
        if self._has_just_resumed() and isinstance(error, InvalidRequest) and str(error).startswith(_ENDED):
            self._asked[0].end = self._ended(self._asked[0], pb.FINISH_REASON_STOP)
            return self._more(0.0)
        if self._started is None or error.status not in _LOST or self._patience <= 0:
            raise self._with_partial(error)
        now = self._now()
        if self._lost_at is None:
            self._lost_at = now
            self._resumed += 1
        if now + self._wait > self._lost_at + self._patience:
            raise self._with_partial(error)
        for text in self._texts:
            if text.end is None and self._length(text) >= self._started.max_tokens > 0:
                text.end = self._ended(text, pb.FINISH_REASON_LENGTH)
        wait, self._wait = self._wait, min(_MAX_WAIT, 3 * self._wait)
        if self._deadline is not None:
            wait = max(0.0, min(wait, self._deadline - now))
        return self._more(wait)

    def result(self) -> Result:
        """What has come so far. Only after the service has told that it began."""
        started = self._started
        assert started is not None
        record = _records.total([last.speculation for last in self._lasts], started)
        usage = pb.Usage(prompt_tokens=started.prompt_tokens,
                         completion_tokens=sum(len(text.token_ids) for text in self._texts))
        return Result(
            started=started,
            samples=tuple(self._sample(text) for text in self._texts),
            prompt_logprobs=tuple(self._prompt), rounds=tuple(self._rounds), usage=usage, record=record,
            timing=self._lasts[-1].timing if self._lasts else pb.Timing(), resumed=self._resumed)

    def cancelled(self) -> TandemError:
        """For a caller that has ended the request itself."""
        return self._with_partial(Cancelled("cancelled", grpc.StatusCode.CANCELLED))

    def _has_just_resumed(self) -> bool:
        return self._started is not None and self._call_started is None and self._asked is not self._texts

    def _more(self, wait: float) -> float:
        return wait if any(text.end is None for text in self._texts) else -1.0

    def _length(self, text: _Text) -> int:
        return len(self._request.output_prefix_ids) + len(text.token_ids)

    def _with_partial(self, error: TandemError) -> TandemError:
        if self._started is not None:
            error.partial = self.result()
        return error

    def _request_for(self, text: _Text, started: pb.Started) -> pb.GenerateRequest:
        request = pb.GenerateRequest()
        request.CopyFrom(self._request)
        request.samples = 1
        request.first_sample += text.index
        request.seed = started.seed
        if not request.speculation.rule:
            # A seed would make another rule the default.
            request.speculation.rule = started.rule
        request.max_tokens = started.max_tokens
        request.output_prefix_ids.extend(text.token_ids)
        if request.logprobs.prompt:
            whole = len(self._prompt) == started.prompt_tokens - 1
            request.logprobs.prompt = not whole
            if not whole:
                self._prompt = []
        return request

    def _on_started(self, started: pb.Started) -> None:
        if self._started is None:
            self._started = started
        elif started.target_model_id != self._started.target_model_id:
            raise self._with_partial(ModelChanged(
                f"the text began with the model {self._started.target_model_id}, and the orchestrator that could go "
                f"on has {started.target_model_id}"))
        self._call_started = started

    def _text_of(self, sample_index: int) -> _Text:
        if sample_index >= len(self._asked):
            raise self._with_partial(
                InternalError(f"the service sent sample {sample_index}; there are {len(self._asked)}"))
        return self._asked[sample_index]

    def _on_delta(self, delta: pb.Delta) -> Delta:
        text = self._text_of(delta.sample_index)
        logprobs = _logprobs(delta.token_ids, delta.logprobs, delta.top_logprobs, delta.token_bytes)
        runs = _text_runs(delta)
        text.text.append(delta.text)
        text.token_ids.extend(delta.token_ids)
        text.logprobs.extend(logprobs)
        text.token_bytes.extend(delta.token_bytes)
        for run in runs:
            if text.text_runs and text.text_runs[-1].accepted == run.accepted:
                run = TextRun(text.text_runs.pop().text + run.text, run.accepted)
            text.text_runs.append(run)
        return Delta(text.index, delta.text, tuple(delta.token_ids), tuple(logprobs), tuple(delta.token_bytes),
                     tuple(runs))

    def _on_last(self, last: pb.Last) -> None:
        self._lasts.append(last)
        for end in last.samples:
            self._text_of(end.sample_index).end = end

    def _ended(self, text: _Text, reason: Any) -> pb.SampleEnd:
        return pb.SampleEnd(finish_reason=reason, completion_tokens=len(text.token_ids))

    def _sample(self, text: _Text) -> Sample:
        end = text.end or pb.SampleEnd()
        reasons = {pb.FINISH_REASON_STOP: "stop", pb.FINISH_REASON_LENGTH: "length"}
        return Sample(text.index, "".join(text.text), tuple(text.token_ids), tuple(text.logprobs),
                      tuple(text.token_bytes), tuple(text.text_runs), reasons.get(end.finish_reason), end.stop_string, end.speculation)


def _text_runs(delta: pb.Delta) -> List[TextRun]:
    text, runs, at = delta.text.encode(), [], 0
    for run in delta.text_runs:
        runs.append(TextRun(text[at:at + run.bytes].decode("utf-8", "replace"), run.accepted))
        at += run.bytes
    if runs and at != len(text):
        raise InternalError("the service sent runs that fit no text")
    return runs


def _logprobs(token_ids: Any, logprobs: Any, top: Any, token_bytes: Any) -> List[TokenLogprob]:
    for values in (logprobs, top, token_bytes):
        if len(values) not in (0, len(token_ids)):
            raise InternalError("the service sent log probabilities that fit no tokens")
    return [
        TokenLogprob(token_ids[i], value, token_bytes[i] if token_bytes else b"",
                     tuple(TopLogprob(one.token, one.logprob, one.token_bytes)
                           for one in (top[i].tokens if top else ())))
        for i, value in enumerate(logprobs)]
