// Client channels with Tandem's settings: quick reconnection, keepalive, message limits.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/messages/limits.h"
#include "common/security/bearer_tokens.h"
#include "common/security/tls_options.h"

namespace grpc {
class Channel;
class ChannelArguments;
class ChannelCredentials;
}  // namespace grpc

namespace tandem::transport {

// Whom a channel trusts, and how it identifies itself. Empty: plaintext, without an identity.
struct ChannelSecurity {
  std::shared_ptr<grpc::ChannelCredentials> credentials;
  std::string server_name;                       // as in TlsClientOptions
  std::shared_ptr<security::ClientToken> token;  // sent with every call; null: none
};

// Reads the files. Errors as MakeChannelCredentials and ClientToken::Load. `token_file` empty: no
// token.
absl::StatusOr<ChannelSecurity> MakeChannelSecurity(const security::TlsClientOptions& tls,
                                                    const std::string& token_file = "");

// A channel to HOST:PORT. It connects on the first call, and again after a loss, waiting 100 ms,
// then up to 2 s between attempts. Holds the process's IdleGuard while it lives. Its calls fail at
// once (UNAVAILABLE) while there is no connection, unless they wait for ready.
std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address,
                                           const ChannelSecurity& security = {});

// The two parts of MakeChannel, for channels that want something else: its settings, ...
grpc::ChannelArguments ChannelSettings();
// ... and the guard, held while the channel lives.
std::shared_ptr<grpc::Channel> KeptAwake(std::shared_ptr<grpc::Channel> channel);

// A channel with gRPC's own settings and `arguments`, without the guard.
std::shared_ptr<grpc::Channel> MakePlainChannel(const std::string& address,
                                                const ChannelSecurity& security,
                                                grpc::ChannelArguments arguments);

}  // namespace tandem::transport
