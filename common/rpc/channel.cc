#include "common/rpc/channel.h"

#include <grpcpp/grpcpp.h>

#include "common/rpc/idle_guard.h"

namespace tandem::rpc {

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address,
                                           std::shared_ptr<grpc::ChannelCredentials> credentials,
                                           const std::string& server_name) {
  if (credentials == nullptr) credentials = grpc::InsecureChannelCredentials();
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  // As long may an attempt take: a slow link, a busy machine.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2000);
  arguments.SetMaxReceiveMessageSize(kMostMessageBytes);
  // A half-open link (a machine that vanished) is noticed within 15 s, also between requests.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5000);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // One connection a channel: a process that talks to two services at one address keeps them apart.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  if (!server_name.empty()) arguments.SetSslTargetNameOverride(server_name);
  auto channel = grpc::CreateCustomChannel(address, credentials, arguments);
  auto guard = IdleGuard::Get();
  grpc::Channel* raw = channel.get();
  return {raw, [channel = std::move(channel), guard = std::move(guard)](grpc::Channel*) mutable {
            channel.reset();
            guard.reset();
          }};
}

}  // namespace tandem::rpc
