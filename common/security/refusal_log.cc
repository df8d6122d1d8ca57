#include "common/security/refusal_log.h"

#include "common/base/log.h"
#include "common/base/log_fields.h"

namespace tandem::security {
namespace {

constexpr absl::Duration kWindow = absl::Minutes(1);

}  // namespace

RefusalLog::~RefusalLog() { Look(absl::InfiniteFuture()); }

void RefusalLog::Refused(absl::string_view method, absl::string_view reason, absl::string_view peer,
                         absl::Time now) {
  concurrency::MutexLock lock(mutex_);
  Cause& cause = causes_[{std::string(method), std::string(reason)}];
  if (now - cause.said < kWindow) {
    ++cause.others;
    return;
  }
  base::LogFields line("unauthenticated");
  line.Add("method", method).Add("peer", peer).Add("reason", reason);
  if (cause.others > 0) line.Add("others", cause.others);
  TANDEM_LOG(kWarning) << line;
  cause = {now};
}

void RefusalLog::Look(absl::Time now) {
  concurrency::MutexLock lock(mutex_);
  for (auto& [key, cause] : causes_) {
    if (cause.others == 0 || now - cause.said < kWindow) continue;
    TANDEM_LOG(kWarning) << base::LogFields("unauthenticated")
                                .Add("method", key.first)
                                .Add("reason", key.second)
                                .Add("others", cause.others);
    cause = {now};
  }
}

}  // namespace tandem::security
