# SPDX-License-Identifier: Apache-2.0
"""What can go wrong, one class for each thing that a caller does about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Optional, Tuple, Type

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

if TYPE_CHECKING:
    from tandem_client._results import Result


class TandemError(Exception):
    """A request that did not succeed."""

    def __init__(self, message: str, status: grpc.StatusCode = grpc.StatusCode.INTERNAL) -> None:
        super().__init__(message)
        self.status = status
        self.partial: Optional[Result] = None  # what came before; None: the request had not begun
        self.fields: Dict[str, str] = {}  # what is wrong with which field, if known
        self.retry_after: Optional[float] = None  # seconds, if the service says


class InvalidRequest(TandemError):
    """The request is wrong, or asks for what is not served. The same one fails again."""


class Unauthenticated(TandemError):
    """No token, a wrong one, or a call that is not allowed."""


class Busy(TandemError):
    """The service has no room at present. Try again after `retry_after`, or a second."""


class Unavailable(TandemError):
    """No orchestrator answers, or none of its targets does."""


class ModelChanged(TandemError):
    """The orchestrator that should have gone on with the text serves another model."""


class DeadlineExceeded(TandemError):
    """`timeout` is over."""


class Cancelled(TandemError):
    """The caller has cancelled it."""


class SlowReader(TandemError):
    """The service gave up, for nobody read its deltas for too long."""


class InternalError(TandemError):
    """A fault of the service, or an answer that makes no sense."""


_CLASSES: Dict[grpc.StatusCode, Type[TandemError]] = {
    grpc.StatusCode.INVALID_ARGUMENT: InvalidRequest,
    grpc.StatusCode.OUT_OF_RANGE: InvalidRequest,
    grpc.StatusCode.NOT_FOUND: InvalidRequest,
    grpc.StatusCode.UNIMPLEMENTED: InvalidRequest,
    grpc.StatusCode.UNAUTHENTICATED: Unauthenticated,
    grpc.StatusCode.PERMISSION_DENIED: Unauthenticated,
    grpc.StatusCode.RESOURCE_EXHAUSTED: Busy,
    grpc.StatusCode.UNAVAILABLE: Unavailable,
    grpc.StatusCode.FAILED_PRECONDITION: Unavailable,
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineExceeded,
    grpc.StatusCode.CANCELLED: Cancelled,
    grpc.StatusCode.ABORTED: SlowReader,
}


def error_of(call: Any) -> TandemError:
    """Of a call that has failed: what gRPC raises, whether sync or asyncio."""
    code, details = call.code(), call.details() or ""
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED and "message larger than max" in details:
        code, details = grpc.StatusCode.INVALID_ARGUMENT, f"the request is too large: {details}"
    elif code is grpc.StatusCode.UNAVAILABLE and "http1.x server" in details:
        details += "; the port speaks HTTP/1.1: take the orchestrator's gRPC port"
    elif code is grpc.StatusCode.UNAVAILABLE and "Expected SETTINGS frame" in details:
        details += "; the port does not speak HTTP/2: take the orchestrator's gRPC port"
    elif code is grpc.StatusCode.UNIMPLEMENTED and not details:
        details = "the port serves gRPC, but not tandem.v1.Generation: take that of an orchestrator"
    error = _CLASSES.get(code, InternalError)(details or code.name, code)
    for key, value in _pairs(call.trailing_metadata()):
        if key == "grpc-status-details-bin" and isinstance(value, bytes):
            _add_details(error, value)
    return error


def _pairs(metadata: Any) -> Tuple[Tuple[str, Any], ...]:
    return tuple((key, value) for key, value in metadata or ())


def _add_details(error: TandemError, data: bytes) -> None:
    """google.rpc's details; unknown ones are skipped."""
    status, bad, retry = status_pb2.Status(), error_details_pb2.BadRequest(), error_details_pb2.RetryInfo()
    try:
        status.ParseFromString(data)
        for detail in status.details:
            if detail.Unpack(bad):
                error.fields.update({one.field: one.description for one in bad.field_violations})
            elif detail.Unpack(retry):
                error.retry_after = retry.retry_delay.seconds + retry.retry_delay.nanos / 1e9
    except DecodeError:
        pass  # the status itself says enough
