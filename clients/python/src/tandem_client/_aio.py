# SPDX-License-Identifier: Apache-2.0
"""The client for asyncio. What it has in common with the one that blocks is in _session.py."""

from __future__ import annotations

import asyncio
import os
from types import TracebackType
from typing import (
    TYPE_CHECKING, Any, AsyncGenerator, AsyncIterator, Callable, Optional, Sequence, Tuple, Type, TypeVar, Union)

import grpc
import grpc.aio
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

    async def deltas(self) -> AsyncGenerator[Delta, None]:
        more = True
        try:
            while more:
                call = self._begin(*self.session.next_call())
                try:
                    async for reply in call:
                        delta = self.session.on_reply(reply)
                        if delta is not None:
                            yield delta
                    more = self.session.on_end()
                except grpc.RpcError as failure:
                    wait = self.session.on_error(error_of(failure))
                    more = wait >= 0
                    await asyncio.sleep(max(0.0, wait))
                finally:
                    call.cancel()
            self.ended = True
        except TandemError as error:
            self.error = error
            raise


class AsyncStream:
    """One request, as it goes. Iterate over it for its deltas. A context manager: leaving it ends
    the request.

    A task that is cancelled while it waits here ends the request, too.
    """

    def __init__(self, run: _Run) -> None:
        self._run = run
        self._deltas = run.deltas()

    def __aiter__(self) -> AsyncIterator[Delta]:
        return self

    async def __anext__(self) -> Delta:
        return await self._deltas.__anext__()

    @property
    def started(self) -> Optional[pb.Started]:
        """What is in force. None: the service has not told yet; it has before the first delta."""
        return self._run.session.started

    async def result(self) -> Result:
        """Waits for the end. Deltas that nobody took are in it as well."""
        async for _ in self._deltas:
            pass
        if self._run.error is not None:
            raise self._run.error
        if not self._run.ended:
            raise self._run.session.cancelled()
        return self._run.session.result()

    async def aclose(self) -> None:
        """Ends the request now."""
        await self._deltas.aclose()

    async def __aenter__(self) -> AsyncStream:
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                        trace: Optional[TracebackType]) -> None:
        await self.aclose()


class AsyncClient:
    """As Client. Of one event loop: the one that runs when it is first used."""

    def __init__(self, address: str = "localhost:50050", *, tls: Optional[Tls] = None, token: Optional[str] = None,
                 token_file: Union[str, "os.PathLike[str]", None] = None, patience: float = 30.0) -> None:
        self._target = Target(address, tls, token, token_file)
        self._credentials = None if tls is None else tls.credentials()
        self._patience = patience
        self._made: Any = None

    def stream(self, prompt: Prompt, **options: Unpack[Options]) -> AsyncStream:
        """Begins a request. Nothing is sent before the first delta is asked for."""
        request = make_request(prompt, options)

        def begin(request: pb.GenerateRequest, timeout: Optional[float]) -> Any:
            call = self._channel().unary_stream(
                GENERATE, request_serializer=pb.GenerateRequest.SerializeToString,
                response_deserializer=pb.GenerateReply.FromString)
            return call(request, timeout=timeout, metadata=self._target.metadata(options.get("traceparent")))

        return AsyncStream(_Run(begin, Session(request, options.get("timeout"), self._patience)))

    async def generate(self, prompt: Prompt, **options: Unpack[Options]) -> Result:
        """A whole request."""
        async with self.stream(prompt, **options) as stream:
            return await stream.result()

    async def describe(self, timeout: Optional[float] = None) -> pb.DescribeReply:
        """Which targets and drafts the orchestrator works with."""
        return await self._unary(DESCRIBE, pb.DescribeRequest(), pb.DescribeReply, timeout)

    async def models(self, timeout: Optional[float] = None) -> Tuple[pb.Model, ...]:
        """Which models may be asked for text."""
        return tuple((await self._unary(LIST_MODELS, pb.ListModelsRequest(), pb.ListModelsReply, timeout)).models)

    async def tokenize(self, prompt: Union[str, Messages], timeout: Optional[float] = None,
                       **options: Unpack[PromptOptions]) -> pb.TokenizeReply:
        """The ids that a request would make of a prompt, and their bytes."""
        return await self._unary(TOKENIZE, make_tokenize_request(prompt, options), pb.TokenizeReply, timeout)

    async def detokenize(self, token_ids: Sequence[int], timeout: Optional[float] = None) -> str:
        """The text of ids. Special tokens have none."""
        request = pb.DetokenizeRequest(token_ids=token_ids)
        return (await self._unary(DETOKENIZE, request, pb.DetokenizeReply, timeout)).text

    async def _unary(self, method: str, request: Any, kind: Type[ReplyT], timeout: Optional[float]) -> ReplyT:
        call = self._channel().unary_unary(method, request_serializer=type(request).SerializeToString,
                                           response_deserializer=kind.FromString)
        try:
            reply: ReplyT = await call(request, timeout=timeout, metadata=self._target.metadata())
        except grpc.RpcError as failure:
            raise error_of(failure) from None
        return reply

    async def close(self) -> None:
        if self._made is not None:
            await self._made.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                        trace: Optional[TracebackType]) -> None:
        await self.close()

    # gRPC's channels take the loop that runs when they are made.
    def _channel(self) -> Any:
        if self._made is None:
            options = self._target.options()
            self._made = (grpc.aio.insecure_channel(self._target.address, options) if self._credentials is None
                          else grpc.aio.secure_channel(self._target.address, self._credentials, options))
        return self._made
