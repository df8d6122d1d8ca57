# SPDX-License-Identifier: Apache-2.0
"""The client that blocks."""

from __future__ import annotations

import os
import threading
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, Generator, Iterator, Optional, Sequence, Tuple, Type, TypeVar, Union

import grpc
from google.protobuf.message import Message as ProtoMessage

from tandem_client._channel import DESCRIBE, DETOKENIZE, GENERATE, LIST_MODELS, TOKENIZE, Target, Tls
from tandem_client._errors import TandemError, error_of
from tandem_client._options import Messages, Options, Prompt, PromptOptions, make_request, make_tokenize_request
from tandem_client._results import Delta, Result
from tandem_client._session import Session
from tandem_client import v1 as pb

if TYPE_CHECKING:
    from typing_extensions import Unpack

ReplyT = TypeVar("ReplyT", bound=ProtoMessage)


class _Run:
    """The calls of one request."""

    def __init__(self, begin: Callable[[pb.GenerateRequest, Optional[float]], Any], session: Session) -> None:
        self.session = session
        self.ended = False
        self.error: Optional[TandemError] = None
        self._begin = begin
        self._lock = threading.Lock()
        self._call: Any = None
        self._cancelled = threading.Event()

    def cancel(self) -> None:
        self._cancelled.set()
        with self._lock:
            if self._call is not None:
                self._call.cancel()

    def deltas(self) -> Generator[Delta, None, None]:
        try:
            yield from self._calls()
            self.ended = True
        except TandemError as error:
            self.error = error
            raise

    def _calls(self) -> Generator[Delta, None, None]:
        more = True
        while more:
            call = self._next_call()
            try:
                for reply in call:
                    delta = self.session.on_reply(reply)
                    if delta is not None:
                        yield delta
                more = self.session.on_end()
            except grpc.RpcError as failure:
                if self._cancelled.is_set():
                    raise self.session.cancelled() from None
                wait = self.session.on_error(error_of(failure))
                more = wait >= 0
                if more and self._cancelled.wait(wait):
                    raise self.session.cancelled() from None
            finally:
                call.cancel()

    def _next_call(self) -> Any:
        request, timeout = self.session.next_call()
        with self._lock:
            self._call = self._begin(request, timeout)
            if self._cancelled.is_set():
                self._call.cancel()
            return self._call


class Stream:
    """One request, as it goes. Iterate over it for its deltas. A context manager: leaving it ends
    the request.

    Of one thread, but for `cancel`.
    """

    def __init__(self, run: _Run) -> None:
        # The generator does not know this object. So a stream that nobody has any more ends at
        # once.
        self._run = run
        self._deltas = run.deltas()

    def __iter__(self) -> Iterator[Delta]:
        return self

    def __next__(self) -> Delta:
        return next(self._deltas)

    @property
    def started(self) -> Optional[pb.Started]:
        """What is in force. None: the service has not told yet; it has before the first delta."""
        return self._run.session.started

    def result(self) -> Result:
        """Waits for the end. Deltas that nobody took are in it as well."""
        for _ in self._deltas:
            pass
        if self._run.error is not None:
            raise self._run.error
        if not self._run.ended:
            raise self._run.session.cancelled()
        return self._run.session.result()

    def cancel(self) -> None:
        """Ends the request now. From any thread; who iterates gets Cancelled."""
        self._run.cancel()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self._run.cancel()
        self._deltas.close()


class Client:
    """Calls an orchestrator, or all those that a name has. Thread-safe. A context manager.

    `address`: HOST:PORT, or another form that gRPC knows. `patience`: for so many seconds without
    any progress a request that lost its orchestrator looks for another one; 0: it fails at once.
    """

    def __init__(self, address: str = "localhost:50050", *, tls: Optional[Tls] = None, token: Optional[str] = None,
                 token_file: Union[str, "os.PathLike[str]", None] = None, patience: float = 30.0) -> None:
        self._target = Target(address, tls, token, token_file)
        self._patience = patience
        options = self._target.options()
        self._channel = (grpc.insecure_channel(address, options) if tls is None
                         else grpc.secure_channel(address, tls.credentials(), options))
        self._generate = self._channel.unary_stream(
            GENERATE, request_serializer=pb.GenerateRequest.SerializeToString,
            response_deserializer=pb.GenerateReply.FromString)

    def stream(self, prompt: Prompt, **options: Unpack[Options]) -> Stream:
        """Begins a request. Nothing is sent before the first delta is asked for."""
        request = make_request(prompt, options)

        def begin(request: pb.GenerateRequest, timeout: Optional[float]) -> Any:
            metadata = self._target.metadata(options.get("traceparent"))
            return self._generate(request, timeout=timeout, metadata=metadata)

        return Stream(_Run(begin, Session(request, options.get("timeout"), self._patience)))

    def generate(self, prompt: Prompt, **options: Unpack[Options]) -> Result:
        """A whole request."""
        with self.stream(prompt, **options) as stream:
            return stream.result()

    def describe(self, timeout: Optional[float] = None) -> pb.DescribeReply:
        """Which targets and drafts the orchestrator works with."""
        return self._unary(DESCRIBE, pb.DescribeRequest(), pb.DescribeReply, timeout)

    def models(self, timeout: Optional[float] = None) -> Tuple[pb.Model, ...]:
        """Which models may be asked for text."""
        return tuple(self._unary(LIST_MODELS, pb.ListModelsRequest(), pb.ListModelsReply, timeout).models)

    def tokenize(self, prompt: Union[str, Messages], timeout: Optional[float] = None,
                 **options: Unpack[PromptOptions]) -> pb.TokenizeReply:
        """The ids that a request would make of a prompt, and their bytes."""
        return self._unary(TOKENIZE, make_tokenize_request(prompt, options), pb.TokenizeReply, timeout)

    def detokenize(self, token_ids: Sequence[int], timeout: Optional[float] = None) -> str:
        """The text of ids. Special tokens have none."""
        return self._unary(DETOKENIZE, pb.DetokenizeRequest(token_ids=token_ids), pb.DetokenizeReply, timeout).text

    def _unary(self, method: str, request: Any, kind: Type[ReplyT], timeout: Optional[float]) -> ReplyT:
        call = self._channel.unary_unary(method, request_serializer=type(request).SerializeToString,
                                         response_deserializer=kind.FromString)
        try:
            reply: ReplyT = call(request, timeout=timeout, metadata=self._target.metadata())
        except grpc.RpcError as failure:
            raise error_of(failure) from None
        return reply

    def close(self) -> None:
        self._channel.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()
