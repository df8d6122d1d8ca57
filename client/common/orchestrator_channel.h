// Channels to orchestrators.
//
// All addresses that a name resolves to are orchestrators, and calls go to them round-robin. A
// Generate is sent again, to the next orchestrator, if its orchestrator left or died before the
// first message came. gRPC does that by a service config, which other clients can use as well
// (docs/operations.md).
#pragma once

#include <memory>
#include <string>

#include "common/transport/channel.h"

namespace grpc {
class Channel;
}

namespace tandem::client {

// The service config as JSON, for gRPC's clients in every language.
extern const char kServiceConfig[];

// `address` is HOST:PORT, or another form that gRPC knows ("ipv4:10.0.0.7:50050,10.0.0.8:50050").
// The rest is as in transport::MakeChannel. The channel is thread-safe.
std::shared_ptr<grpc::Channel> OrchestratorChannel(const std::string& address,
                                                   const transport::ChannelSecurity& security = {});

}  // namespace tandem::client
