#include "common/security/certificate_expiry.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "common/base/log.h"
#include "common/base/log_fields.h"
#include "common/security/periodic_look.h"

namespace tandem::security {
namespace {

constexpr absl::Duration kSoon = absl::Hours(7 * 24);
constexpr absl::Duration kSayEvery = absl::Hours(24);
constexpr char kMetric[] = "tandem:tls_certificate_expiry_timestamp_seconds";

std::string Text(absl::Time time) { return absl::FormatTime(time, absl::UTCTimeZone()); }

}  // namespace

CertificateExpiry& CertificateExpiry::Get() {
  static CertificateExpiry& expiry = []() -> CertificateExpiry& {
    auto& made = *new CertificateExpiry;
    LookNowAndThen([&made] { made.Look(absl::Now()); });
    return made;
  }();
  return expiry;
}

void CertificateExpiry::Set(const std::string& file, absl::Time until) {
  concurrency::MutexLock lock(mutex_);
  Known& known = known_[file];
  if (known.until != until) known = {until};
}

void CertificateExpiry::Look(absl::Time now) {
  concurrency::MutexLock lock(mutex_);
  for (auto& [file, known] : known_) {
    const bool expired = now > known.until;
    if (known.until - now > kSoon) continue;
    if (now - known.said < kSayEvery && known.said_expired == expired) continue;
    known.said = now;
    known.said_expired = expired;
    base::LogFields line(expired ? "certificate_expired" : "certificate_expires");
    line.Add("file", file).Add("valid_until", Text(known.until));
    if (expired) {
      TANDEM_LOG(kError) << line.Add(
          "hint", "it is no longer trusted: replace the file; a restart is not required");
    } else {
      TANDEM_LOG(kWarning) << line.Add("days_left", absl::ToInt64Hours(known.until - now) / 24)
                                  .Add("hint", "replace the file; a restart is not required");
    }
  }
}

std::string CertificateExpiry::Expired(absl::Time now) const {
  concurrency::MutexLock lock(mutex_);
  std::string text;
  for (const auto& [file, known] : known_) {
    if (now <= known.until) continue;
    absl::StrAppend(&text, text.empty() ? "" : ", ", file, " expired at ", Text(known.until));
  }
  return text;
}

std::string CertificateExpiry::MetricsText() const {
  concurrency::MutexLock lock(mutex_);
  if (known_.empty()) return "";  // a family without a series is one that nobody can look at
  std::string text =
      absl::StrCat("# HELP ", kMetric,
                   " When what is in force out of a TLS file expires, in seconds since 1970.\n",
                   "# TYPE ", kMetric, " gauge\n");
  for (const auto& [file, known] : known_) {
    const std::string label =
        absl::StrReplaceAll(file, {{"\\", "\\\\"}, {"\"", "\\\""}, {"\n", "\\n"}});
    absl::StrAppend(&text, kMetric, "{file=\"", label, "\"} ", absl::ToUnixSeconds(known.until),
                    "\n");
  }
  return text;
}

}  // namespace tandem::security
