#include "common/transport/channel.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/client_interceptor.h>

#include <utility>
#include <vector>

#include "common/base/status_macros.h"
#include "common/security/tls_credentials.h"
#include "common/transport/idle_guard.h"

namespace tandem::transport {
namespace {

// Call credentials would do the same, but not in plaintext on the loopback interface.
class AuthorizationFactory final : public grpc::experimental::ClientInterceptorFactoryInterface {
 public:
  explicit AuthorizationFactory(std::shared_ptr<security::ClientToken> token)
      : token_(std::move(token)) {}

  grpc::experimental::Interceptor* CreateClientInterceptor(
      grpc::experimental::ClientRpcInfo*) override {
    return new Authorize(*token_);
  }

 private:
  class Authorize final : public grpc::experimental::Interceptor {
   public:
    explicit Authorize(security::ClientToken& token) : token_(token) {}
    void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
      if (methods->QueryInterceptionHookPoint(
              grpc::experimental::InterceptionHookPoints::PRE_SEND_INITIAL_METADATA)) {
        methods->GetSendInitialMetadata()->emplace("authorization", token_.Authorization());
      }
      methods->Proceed();
    }

   private:
    security::ClientToken& token_;
  };

  const std::shared_ptr<security::ClientToken> token_;
};

}  // namespace

absl::StatusOr<ChannelSecurity> MakeChannelSecurity(const security::TlsClientOptions& tls,
                                                    const std::string& token_file) {
  ChannelSecurity security;
  TANDEM_ASSIGN_OR_RETURN(security.credentials, security::MakeChannelCredentials(tls));
  security.server_name = tls.server_name;
  if (!token_file.empty()) {
    TANDEM_ASSIGN_OR_RETURN(security.token, security::ClientToken::Load(token_file));
  }
  return security;
}

std::shared_ptr<grpc::Channel> MakePlainChannel(const std::string& address,
                                                const ChannelSecurity& security,
                                                grpc::ChannelArguments arguments) {
  if (!security.server_name.empty()) arguments.SetSslTargetNameOverride(security.server_name);
  const std::shared_ptr<grpc::ChannelCredentials> credentials =
      security.credentials != nullptr ? security.credentials : grpc::InsecureChannelCredentials();
  if (security.token == nullptr) {
    return grpc::CreateCustomChannel(address, credentials, arguments);
  }
  std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> interceptors;
  interceptors.push_back(std::make_unique<AuthorizationFactory>(security.token));
  return grpc::experimental::CreateCustomChannelWithInterceptors(address, credentials, arguments,
                                                                 std::move(interceptors));
}

grpc::ChannelArguments ChannelSettings() {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  // As long may an attempt take: a slow link, a busy machine.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2000);
  arguments.SetMaxReceiveMessageSize(messages::kMaxMessageBytes);
  // A server's message is not unpacked: a small one may become a large one.
  arguments.SetInt(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, 1 << GRPC_COMPRESS_NONE);
  // A half-open link (a machine that vanished) is noticed within 15 s, also between requests.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5000);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // One connection a channel: a process that talks to two services at one address keeps them apart.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return arguments;
}

std::shared_ptr<grpc::Channel> KeptAwake(std::shared_ptr<grpc::Channel> channel) {
  auto guard = IdleGuard::Get();
  grpc::Channel* raw = channel.get();
  return {raw, [channel = std::move(channel), guard = std::move(guard)](grpc::Channel*) mutable {
            channel.reset();
            guard.reset();
          }};
}

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address,
                                           const ChannelSecurity& security) {
  return KeptAwake(MakePlainChannel(address, security, ChannelSettings()));
}

}  // namespace tandem::transport
