# SPDX-License-Identifier: Apache-2.0
"""Client of Tandem: speculative decoding as a service.

    from tandem_client import Client

    with Client("localhost:50050") as client:
        with client.stream("The city was", max_tokens=40, seed=7) as stream:
            for delta in stream:
                print(delta.text, end="", flush=True)
        print(stream.result().acceptance_rate)
"""

from tandem_client._aio import AsyncClient, AsyncStream
from tandem_client._channel import Tls
from tandem_client._client import Client, Stream
from tandem_client._errors import (
    Busy,
    Cancelled,
    DeadlineExceeded,
    InternalError,
    InvalidRequest,
    ModelChanged,
    SlowReader,
    TandemError,
    Unauthenticated,
    Unavailable,
)
from tandem_client._messages import Message
from tandem_client._options import Options, Prompt, PromptOptions
from tandem_client._results import Delta, Result, Sample, TextRun, TokenLogprob, TopLogprob

__all__ = [
    "AsyncClient", "AsyncStream", "Busy", "Cancelled", "Client", "DeadlineExceeded", "Delta", "InternalError",
    "InvalidRequest", "Message", "ModelChanged", "Options", "Prompt", "PromptOptions", "Result", "Sample", "SlowReader",
    "Stream", "TandemError", "TextRun", "Tls", "TokenLogprob", "TopLogprob", "Unauthenticated", "Unavailable",
]
