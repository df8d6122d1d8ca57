#include "common/security/server_files.h"

#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/base/log.h"
#include "common/base/log_fields.h"
#include "common/base/status_macros.h"
#include "common/security/certificate_expiry.h"
#include "common/security/periodic_look.h"

namespace tandem::security {

ServerFiles::ServerFiles(TlsServerOptions options)
    : options_(std::move(options)),
      stamps_({options_.certificate, options_.key, options_.client_ca}) {}

absl::StatusOr<ServerFiles*> ServerFiles::Keep(const TlsServerOptions& options) {
  std::unique_ptr<ServerFiles> files(new ServerFiles(options));
  TANDEM_RETURN_IF_ERROR(files->Load());
  static auto& mutex = *new concurrency::Mutex;
  static auto& kept = *new std::vector<std::unique_ptr<ServerFiles>>;
  concurrency::MutexLock lock(mutex);
  kept.push_back(std::move(files));
  ServerFiles* const raw = kept.back().get();
  LookNowAndThen([raw] { raw->Current(); });
  return raw;
}

absl::Status ServerFiles::Check(const TlsServerOptions& options) {
  return ServerFiles(options).Load();
}

std::shared_ptr<const ServerIdentity> ServerFiles::Current() {
  concurrency::MutexLock lock(mutex_);
  LookLocked();
  return current_;
}

absl::Status ServerFiles::Load() {
  return ReadPatiently([this] {
    concurrency::MutexLock lock(mutex_);
    return LoadLocked();
  });
}

absl::Status ServerFiles::LoadLocked() {
  TANDEM_ASSIGN_OR_RETURN(Identity identity, ReadIdentity(options_.certificate, options_.key));
  Authorities authorities;
  if (!options_.client_ca.empty()) {
    TANDEM_ASSIGN_OR_RETURN(authorities, ReadAuthorities(options_.client_ca));
    CertificateExpiry::Get().Set(options_.client_ca, authorities.not_after);
  }
  CertificateExpiry::Get().Set(options_.certificate, identity.not_after);
  subject_ = std::move(identity.subject);
  not_after_ = identity.not_after;
  current_ = std::make_shared<const ServerIdentity>(
      ServerIdentity{std::move(identity.certificate), std::move(identity.key),
                     std::move(authorities.certificates)});
  return absl::OkStatus();
}

void ServerFiles::LookLocked() {
  if (!stamps_.Changed()) return;
  const absl::Status loaded = LoadLocked();
  if (!loaded.ok()) {
    TANDEM_LOG(kError) << base::LogFields("certificate_kept")
                              .Add("reason", loaded.message())
                              .Add("in_force", subject_);
    return;
  }
  TANDEM_LOG(kInfo) << base::LogFields("certificate_replaced")
                           .Add("file", options_.certificate)
                           .Add("subject", subject_)
                           .Add("valid_until", absl::FormatTime(not_after_, absl::UTCTimeZone()));
}

}  // namespace tandem::security
