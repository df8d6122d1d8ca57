// Says until when a process's certificates are good: in its log before it is too late, and on
// /metrics.
//
//   tandem:tls_certificate_expiry_timestamp_seconds{file="/certs/target.pem"}  seconds since 1970
//
// What is in force counts, not what lies on the disk. New files that were refused change nothing.
#pragma once

#include <map>
#include <string>

#include "absl/time/time.h"
#include "common/concurrency/mutex.h"

namespace tandem::security {

// Thread-safe.
class CertificateExpiry {
 public:
  // The one of this process. It looks at itself every now and then, and is never destroyed.
  static CertificateExpiry& Get();

  // For tests: nobody looks but the caller.
  CertificateExpiry() = default;

  // What is in force from `file` is good until `until`. A certificate and those between it and its
  // authority are good until the first of them expires, authorities until the last one does.
  void Set(const std::string& file, absl::Time until) TANDEM_EXCLUDES(mutex_);

  // Logs what is due, each once a day: `certificate_expires` (a warning) when less than 7 days are
  // left, and `certificate_expired` (an error), from that moment on.
  void Look(absl::Time now) TANDEM_EXCLUDES(mutex_);

  // "FILE expired at TIME", with commas between; empty when all are good.
  std::string Expired(absl::Time now) const TANDEM_EXCLUDES(mutex_);

  // In Prometheus' text format; empty without a certificate.
  std::string MetricsText() const TANDEM_EXCLUDES(mutex_);

 private:
  struct Known {
    absl::Time until;
    absl::Time said = absl::InfinitePast();
    bool said_expired = false;
  };

  mutable concurrency::Mutex mutex_;
  std::map<std::string, Known> known_ TANDEM_GUARDED_BY(mutex_);  // by file
};

}  // namespace tandem::security
