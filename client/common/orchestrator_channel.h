// Channels to orchestrators.
//
// An address is a name, and all that it resolves to are orchestrators: calls go to them in turn. A Generate that
// got no message yet when its orchestrator was gone, or was leaving, is sent again, to the next one; gRPC does that
// by a service config, which other clients can have as well (docs/operations.md).
#pragma once

#include <memory>
#include <string>

#include "common/transport/channel.h"

namespace grpc {
class Channel;
}

namespace tandem::client {

// JSON, as gRPC's clients in every language take it.
extern const char kServiceConfig[];

// Thread-safe, as every channel. `address`: HOST:PORT, or what else gRPC takes ("ipv4:10.0.0.7:50050,10.0.0.8:50050").
// Otherwise as transport::MakeChannel.
std::shared_ptr<grpc::Channel> OrchestratorChannel(const std::string& address,
                                                   const transport::ChannelSecurity& security = {});

}  // namespace tandem::client
