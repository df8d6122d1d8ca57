#include "client/common/orchestrator_channel.h"

#include <grpcpp/grpcpp.h>

namespace tandem::client {

// gRPC allows at most five attempts. gRPC's own server answers CANCELLED to a call that reaches it
// during its shutdown. Otherwise CANCELLED means that the client itself cancelled the call, and
// such a call is never sent again. Only Generate is retried: who calls Describe wants to hear what
// is wrong.
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
  // A request that is larger than this buffer is sent once only. A prompt may be that large.
  arguments.SetInt(GRPC_ARG_PER_RPC_RETRY_BUFFER_SIZE, 2 * messages::kMaxMessageBytes);
  // When the addresses of a name have just gone, it may have others already.
  arguments.SetInt(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, 1000);
  // The orchestrator is the user's own service, so a web proxy in the environment is not meant for
  // it.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // Texts are small, so the bandwidth needs no probes. A ping that crosses the end of an
  // orchestrator's connection is answered by a reset, and a last message that was not read yet may
  // be lost with it ("Broken pipe").
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  return transport::KeptAwake(transport::MakePlainChannel(address, security, arguments));
}

}  // namespace tandem::client
