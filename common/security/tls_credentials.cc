#include "common/security/tls_credentials.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/concurrency/mutex.h"
#include "common/security/checked_copies.h"
#include "common/security/grpc_log.h"
#include "common/security/server_files.h"

namespace tandem::security {
namespace {

constexpr unsigned kLookEverySeconds = 1;  // the shortest that gRPC's watcher knows

// gRPC's fetcher: called before each handshake, and once when the port is added.
class Fetcher {
 public:
  explicit Fetcher(ServerFiles* files) : files_(files) {}

  static grpc_ssl_certificate_config_reload_status Fetch(
      void* fetcher, grpc_ssl_server_certificate_config** config) {
    return static_cast<Fetcher*>(fetcher)->Next(config);
  }

 private:
  grpc_ssl_certificate_config_reload_status Next(grpc_ssl_server_certificate_config** config)
      TANDEM_EXCLUDES(mutex_) {
    concurrency::MutexLock lock(mutex_);
    std::shared_ptr<const ServerIdentity> identity = files_->Current();
    if (handed_over_ == identity) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    const grpc_ssl_pem_key_cert_pair pair = {identity->key.c_str(), identity->certificate.c_str()};
    // 1.51 aborts on a fetched config without authorities, also where no client is asked for a
    // certificate and nobody looks at them. Then they are the server's own certificate.
    const std::string& authorities =
        identity->authorities.empty() ? identity->certificate : identity->authorities;
    *config = grpc_ssl_server_certificate_config_create(authorities.c_str(), &pair, 1);
    handed_over_ = std::move(identity);
    return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
  }

  ServerFiles* const files_;
  concurrency::Mutex mutex_;
  std::shared_ptr<const ServerIdentity> handed_over_ TANDEM_GUARDED_BY(mutex_);  // to gRPC
};

// Never destroyed, as what it fetches from.
Fetcher* Keep(ServerFiles* files) {
  static auto& mutex = *new concurrency::Mutex;
  static auto& kept = *new std::vector<std::unique_ptr<Fetcher>>;
  concurrency::MutexLock lock(mutex);
  kept.push_back(std::make_unique<Fetcher>(files));
  return kept.back().get();
}

// gRPC 1.51's C++ has no credentials with a fetcher; its C core has.
class FetchingCredentials final : public grpc::ServerCredentials {
 public:
  FetchingCredentials(Fetcher* fetcher, bool mutual)
      : credentials_(grpc_ssl_server_credentials_create_with_options(
            grpc_ssl_server_credentials_create_options_using_config_fetcher(
                mutual ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                       : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE,
                &Fetcher::Fetch, fetcher))) {
    TANDEM_CHECK(credentials_ != nullptr) << "gRPC takes no certificate fetcher";
  }
  ~FetchingCredentials() override { grpc_server_credentials_release(credentials_); }
  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {
    TANDEM_CHECK(false) << "tokens are checked by the service (bearer_tokens.h)";
  }

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  grpc_server_credentials* const credentials_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(
    const TlsServerOptions& options) {
  TANDEM_RETURN_IF_ERROR(options.Validate());
  if (!options.enabled()) return grpc::InsecureServerCredentials();
  TANDEM_ASSIGN_OR_RETURN(ServerFiles* const files, ServerFiles::Keep(options));
  TakeOverGrpcLog();
  return std::make_shared<FetchingCredentials>(Keep(files), !options.client_ca.empty());
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeChannelCredentials(
    const TlsClientOptions& options) {
  TANDEM_RETURN_IF_ERROR(options.Validate());
  if (!options.enabled()) return grpc::InsecureChannelCredentials();
  TANDEM_ASSIGN_OR_RETURN(const CheckedCopies copies, CopiesOf(options));
  TakeOverGrpcLog();
  grpc::experimental::TlsChannelCredentialsOptions tls;
  tls.set_certificate_provider(std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
      copies.identity, copies.identity, copies.ca, kLookEverySeconds));
  tls.watch_root_certs();
  if (!options.certificate.empty()) tls.watch_identity_key_cert_pairs();
  tls.set_certificate_verifier(std::make_shared<grpc::experimental::HostNameCertificateVerifier>());
  tls.set_check_call_host(true);
  return grpc::experimental::TlsCredentials(tls);
}

}  // namespace tandem::security
