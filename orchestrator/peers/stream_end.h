// Why a peer ended its stream, for people.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tandem::orchestrator {

// `service`: what the peer should serve, such as "tandem.internal.v1.Target". An address of
// something else answers UNIMPLEMENTED without a word; then the reason says what to look at.
std::string StreamEndReason(const absl::Status& status, absl::string_view service);

}  // namespace tandem::orchestrator
