// Client channels with Tandem's settings: quick reconnection, keepalive, message limits.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/security/credentials.h>

#include <memory>
#include <string>

#include "common/rpc/limits.h"

namespace tandem::rpc {

// A channel to HOST:PORT; without `credentials` plaintext (tls_credentials.h makes them; `server_name` is
// TlsClientOptions'). It connects on the first call, and again after a loss, waiting
// 100 ms, then up to 2 s between attempts. Holds the process's IdleGuard while it lives. Its calls fail
// at once (UNAVAILABLE) while there is no connection, unless they wait for ready.
std::shared_ptr<grpc::Channel> MakeChannel(
    const std::string& address, std::shared_ptr<grpc::ChannelCredentials> credentials = nullptr,
    const std::string& server_name = "");

}  // namespace tandem::rpc
