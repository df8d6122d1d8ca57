#include "orchestrator/request/internal_reason.h"

#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace tandem::orchestrator {
namespace {

constexpr absl::string_view kReason = "tandem.v1.internal_reason";

}  // namespace

absl::Status WithInternalReason(absl::Status status, absl::string_view reason) {
  if (!reason.empty()) status.SetPayload(kReason, absl::Cord(reason));
  return status;
}

absl::Status NoTargetReady(const absl::Status& ready) {
  const bool unfit = absl::IsFailedPrecondition(ready);
  return WithInternalReason(
      absl::Status(ready.code(), unfit ? "no target fits this orchestrator; its log says why"
                                       : "no target is ready; the orchestrator's log says why"),
      ready.message());
}

std::string LogText(const absl::Status& status) {
  const auto reason = status.GetPayload(kReason);
  if (!reason.has_value()) return std::string(status.message());
  return absl::StrCat(status.message(), ": ", std::string(*reason));
}

}  // namespace tandem::orchestrator
