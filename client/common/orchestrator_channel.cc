#include "client/common/orchestrator_channel.h"

#include <grpcpp/grpcpp.h>

namespace tandem::client {

// Five attempts are gRPC's most. CANCELLED is what gRPC's own server says to a call that reaches it while it shuts
// down; nobody else says it but for a call that its client has cancelled, which is never sent again. Generate alone:
// who asks for a Describe wants to hear what is the matter.
const char kServiceConfig[] = R"({
  "loadBalancingConfig": [{"round_robin": {}}],
  "methodConfig": [{
    "name": [{"service": "tandem.v1.Generation", "method": "Generate"}],
    "retryPolicy": {
      "maxAttempts": 5,
      "initialBackoff": "0.1s",
      "maxBackoff": "2s",
      "backoffMultiplier": 3,
      "retryableStatusCodes": ["UNAVAILABLE", "CANCELLED"]
    }
  }]
})";

std::shared_ptr<grpc::Channel> OrchestratorChannel(const std::string& address,
                                                   const transport::ChannelSecurity& security) {
  grpc::ChannelArguments arguments = transport::ChannelSettings();
  arguments.SetServiceConfigJSON(kServiceConfig);
  // A request that is larger than this buffer is sent once. Its prompt may be.
  arguments.SetInt(GRPC_ARG_PER_RPC_RETRY_BUFFER_SIZE, 2 * messages::kMaxMessageBytes);
  // Of a name whose addresses have just gone there may be others.
  arguments.SetInt(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, 1000);
  // The address is a service of one's own; a web proxy in the environment is not meant for it.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // Texts are small: no probes of the bandwidth. A ping that crosses the end of an orchestrator's connection is
  // answered by a reset, and a last message that was not read yet may be lost with it ("Broken pipe").
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  return transport::KeptAwake(transport::MakePlainChannel(address, security, arguments));
}

}  // namespace tandem::client
