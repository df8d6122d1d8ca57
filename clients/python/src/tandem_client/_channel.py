# SPDX-License-Identifier: Apache-2.0
"""How an orchestrator is reached: address, TLS, token, and gRPC's settings."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
from typing import Dict, List, Optional, Tuple, Union

import grpc

GENERATE = "/tandem.v1.Generation/Generate"
DESCRIBE = "/tandem.v1.Generation/Describe"
LIST_MODELS = "/tandem.v1.Generation/ListModels"
TOKENIZE = "/tandem.v1.Generation/Tokenize"
DETOKENIZE = "/tandem.v1.Generation/Detokenize"
MAX_MESSAGE_BYTES = 1 << 20
MAX_REPLY_BYTES = 8 << 20  # the ids of a text that fills a request, with their bytes

# A Generate that got no message yet is sent again, to the next orchestrator. CANCELLED: gRPC's own
# server says so of calls that reach it while it shuts down.
_SERVICE_CONFIG = {
    "loadBalancingConfig": [{"round_robin": {}}],
    "methodConfig": [{
        "name": [{"service": "tandem.v1.Generation", "method": "Generate"}],
        "retryPolicy": {"maxAttempts": 5, "initialBackoff": "0.1s", "maxBackoff": "2s", "backoffMultiplier": 3,
                        "retryableStatusCodes": ["UNAVAILABLE", "CANCELLED"]},
    }],
}
Option = Tuple[str, Union[str, int]]


@dataclasses.dataclass(frozen=True)
class Tls:
    """Files of PEM. They are read when the client is made."""

    ca: Union[str, "os.PathLike[str]"]  # authorities that may have issued the orchestrator's
    certificate: Union[str, "os.PathLike[str]", None] = None  # the client's own, for mutual TLS
    key: Union[str, "os.PathLike[str]", None] = None
    server_name: Optional[str] = None  # in the certificate, where it is not the address's host

    def credentials(self) -> grpc.ChannelCredentials:
        if (self.certificate is None) != (self.key is None):
            raise ValueError("a certificate needs its key, and a key its certificate")
        read = [None if path is None else pathlib.Path(path).read_bytes()
                for path in (self.ca, self.key, self.certificate)]
        return grpc.ssl_channel_credentials(*read)


@dataclasses.dataclass(frozen=True)
class Target:
    """An orchestrator, or all those that a name has."""

    address: str  # HOST:PORT, or another form that gRPC knows: "ipv4:10.0.0.7:50050,10.0.0.8:50050"
    tls: Optional[Tls] = None
    token: Optional[str] = None
    token_file: Union[str, "os.PathLike[str]", None] = None

    def __post_init__(self) -> None:
        if self.token is not None and self.token_file is not None:
            raise ValueError("a token comes from token or from token_file, not from both")
        if self._has_token() and self.tls is None and not is_local(self.address):
            raise ValueError(f"a token would travel to {self.address} in plaintext: give tls")

    def options(self) -> List[Option]:
        options: List[Option] = [
            ("grpc.service_config", json.dumps(_SERVICE_CONFIG)),
            # A larger request is sent once only.
            ("grpc.per_rpc_retry_buffer_size", 2 * MAX_MESSAGE_BYTES),
            ("grpc.max_receive_message_length", MAX_REPLY_BYTES),
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.min_reconnect_backoff_ms", 1000),
            ("grpc.max_reconnect_backoff_ms", 2000),
            ("grpc.dns_min_time_between_resolutions_ms", 1000),
            # A machine that vanished is noticed within 15 s.
            ("grpc.keepalive_time_ms", 10000),
            ("grpc.keepalive_timeout_ms", 5000),
            ("grpc.http2.max_pings_without_data", 0),
            # A probe that crosses the end of a connection may lose the last message.
            ("grpc.http2.bdp_probe", 0),
            # The orchestrator is the user's own service.
            ("grpc.enable_http_proxy", 0),
        ]
        if self.tls is not None and self.tls.server_name is not None:
            options.append(("grpc.ssl_target_name_override", self.tls.server_name))
        return options

    def metadata(self, traceparent: Optional[str] = None) -> Tuple[Tuple[str, str], ...]:
        """Of one call. A token file is read each time, so it may be replaced."""
        metadata: Dict[str, str] = {}
        if self._has_token():
            metadata["authorization"] = f"Bearer {self._read_token()}"
        if traceparent is not None:
            metadata["traceparent"] = traceparent
        return tuple(metadata.items())

    def _has_token(self) -> bool:
        return self.token is not None or self.token_file is not None

    def _read_token(self) -> str:
        if self.token_file is None:
            return self.token or ""
        for line in pathlib.Path(self.token_file).read_text(encoding="utf-8").splitlines():
            line = line.strip()
            if line and not line.startswith("#"):
                return line
        raise ValueError(f"{self.token_file}: there is no token in it")


def is_local(address: str) -> bool:
    """Whether every host of it is this machine."""
    scheme, _, rest = address.partition(":")
    if scheme == "unix":
        return True
    names = rest if scheme in ("ipv4", "ipv6", "dns") else address
    return all(_is_local_host(one) for one in names.lstrip("/").split(","))


def _is_local_host(name: str) -> bool:
    host = name[1:name.index("]")] if name.startswith("[") and "]" in name else name.rpartition(":")[0]
    octets = host.split(".")
    is_loopback = len(octets) == 4 and octets[0] == "127" and all(one.isdigit() for one in octets)
    return host in ("localhost", "::1") or is_loopback
