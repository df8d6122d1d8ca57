#include "orchestrator/peers/stream_end.h"

#include "absl/strings/str_cat.h"
#include "common/security/handshake_hint.h"

namespace tandem::orchestrator {

std::string StreamEndReason(const absl::Status& status, absl::string_view service) {
  if (status.ok()) return "it closed the stream";
  if (absl::IsUnimplemented(status) && status.message().empty()) {
    return absl::StrCat("it does not serve ", service, ": is the address that of another service?");
  }
  const absl::string_view hint = security::HandshakeHint(status.message());
  return absl::StrCat(status.ToString(), hint.empty() ? "" : "; ", hint);
}

}  // namespace tandem::orchestrator
