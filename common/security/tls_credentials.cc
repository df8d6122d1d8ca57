#include "common/security/tls_credentials.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <string>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/log_fields.h"
#include "common/base/status_macros.h"
#include "common/concurrency/mutex.h"
#include "common/security/certificate_expiry.h"
#include "common/security/checked_copies.h"
#include "common/security/grpc_log.h"
#include "common/security/pem_files.h"
#include "common/security/periodic_look.h"

namespace tandem::security {
namespace {

constexpr unsigned kLookEverySeconds = 1;  // the shortest that gRPC's watcher knows

// What a server's handshakes are made with.
class ServerFiles {
 public:
  explicit ServerFiles(TlsServerOptions options)
      : options_(std::move(options)),
        stamps_({options_.certificate, options_.key, options_.client_ca}) {}

  absl::Status Load() TANDEM_EXCLUDES(mutex_) {
    return ReadPatiently([this] {
      concurrency::MutexLock lock(mutex_);
      return LoadLocked();
    });
  }

  // Also without a connection, so that the log and the metrics tell what is in force.
  void Look() TANDEM_EXCLUDES(mutex_) {
    concurrency::MutexLock lock(mutex_);
    LookLocked();
  }

  // gRPC's fetcher: called before each handshake, and once when the port is added.
  static grpc_ssl_certificate_config_reload_status Fetch(
      void* files, grpc_ssl_server_certificate_config** config) {
    return static_cast<ServerFiles*>(files)->Next(config);
  }

 private:
  absl::Status LoadLocked() TANDEM_REQUIRES(mutex_) {
    TANDEM_ASSIGN_OR_RETURN(Identity identity, ReadIdentity(options_.certificate, options_.key));
    Authorities authorities;
    if (!options_.client_ca.empty()) {
      TANDEM_ASSIGN_OR_RETURN(authorities, ReadAuthorities(options_.client_ca));
      CertificateExpiry::Get().Set(options_.client_ca, authorities.not_after);
    }
    CertificateExpiry::Get().Set(options_.certificate, identity.not_after);
    identity_ = std::move(identity);
    authorities_ = std::move(authorities.certificates);
    handed_over_ = false;
    return absl::OkStatus();
  }

  void LookLocked() TANDEM_REQUIRES(mutex_) {
    if (!stamps_.Changed()) return;
    const absl::Status loaded = LoadLocked();
    if (!loaded.ok()) {
      TANDEM_LOG(kError) << base::LogFields("certificate_kept")
                                .Add("reason", loaded.message())
                                .Add("in_force", identity_.subject);
      return;
    }
    TANDEM_LOG(kInfo) << base::LogFields("certificate_replaced")
                             .Add("file", options_.certificate)
                             .Add("subject", identity_.subject)
                             .Add("valid_until",
                                  absl::FormatTime(identity_.not_after, absl::UTCTimeZone()));
  }

  grpc_ssl_certificate_config_reload_status Next(grpc_ssl_server_certificate_config** config)
      TANDEM_EXCLUDES(mutex_) {
    concurrency::MutexLock lock(mutex_);
    LookLocked();
    if (handed_over_) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    const grpc_ssl_pem_key_cert_pair pair = {identity_.key.c_str(), identity_.certificate.c_str()};
    // 1.51 aborts on a fetched config without authorities, also where no client is asked for a
    // certificate and nobody looks at them. Then they are the server's own certificate.
    *config = grpc_ssl_server_certificate_config_create(
        (authorities_.empty() ? identity_.certificate : authorities_).c_str(), &pair, 1);
    handed_over_ = true;
    return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
  }

  const TlsServerOptions options_;
  concurrency::Mutex mutex_;
  FileStamps stamps_ TANDEM_GUARDED_BY(mutex_);
  Identity identity_ TANDEM_GUARDED_BY(mutex_);
  std::string authorities_ TANDEM_GUARDED_BY(mutex_);
  bool handed_over_ TANDEM_GUARDED_BY(mutex_) = false;  // to gRPC
};

// A server's connector may outlive both the server and its credentials for a moment, so the files
// are never destroyed: one a port and process.
ServerFiles* Keep(std::unique_ptr<ServerFiles> files) {
  static auto& mutex = *new concurrency::Mutex;
  static auto& kept = *new std::vector<std::unique_ptr<ServerFiles>>;
  concurrency::MutexLock lock(mutex);
  kept.push_back(std::move(files));
  ServerFiles* const raw = kept.back().get();
  LookNowAndThen([raw] { raw->Look(); });
  return raw;
}

// gRPC 1.51's C++ has no credentials with a fetcher; its C core has.
class FetchingCredentials final : public grpc::ServerCredentials {
 public:
  FetchingCredentials(ServerFiles* files, bool mutual)
      : credentials_(grpc_ssl_server_credentials_create_with_options(
            grpc_ssl_server_credentials_create_options_using_config_fetcher(
                mutual ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                       : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE,
                &ServerFiles::Fetch, files))) {
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
  auto files = std::make_unique<ServerFiles>(options);
  TANDEM_RETURN_IF_ERROR(files->Load());
  LogFailedHandshakes();
  return std::make_shared<FetchingCredentials>(Keep(std::move(files)), !options.client_ca.empty());
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeChannelCredentials(
    const TlsClientOptions& options) {
  TANDEM_RETURN_IF_ERROR(options.Validate());
  if (!options.enabled()) return grpc::InsecureChannelCredentials();
  TANDEM_ASSIGN_OR_RETURN(const CheckedCopies copies, CopiesOf(options));
  LogFailedHandshakes();
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
