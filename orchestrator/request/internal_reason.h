// Why a request failed, where its caller is not to know: reasons name the addresses of peers. The
// operator reads them in the log.
//
// Thread safety: pure functions.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tandem::orchestrator {

// A caller is told `status` as it is; the log is told `reason`, too. An empty one adds nothing.
absl::Status WithInternalReason(absl::Status status, absl::string_view reason);

// For an orchestrator whose targets are not ready: the same code, and nothing of the targets.
absl::Status NoTargetReady(const absl::Status& ready);

// The status' message with that reason.
std::string LogText(const absl::Status& status);

}  // namespace tandem::orchestrator
