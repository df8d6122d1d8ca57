#include "orchestrator/generate/request_names.h"

#include <algorithm>
#include <cstddef>

#include "orchestrator/generate/invalid.h"

namespace tandem::orchestrator {
namespace {

constexpr size_t kMaxRequestId = 128;
constexpr size_t kMaxUser = 256;

absl::Status CheckId(absl::string_view field, absl::string_view id) {
  if (id.empty() || IsRequestId(id)) return absl::OkStatus();
  return Invalid(field, " has ", id.size(), " bytes; it must be 1 to ", kMaxRequestId,
                 " visible characters of ASCII");
}

}  // namespace

bool IsRequestId(absl::string_view id) {
  return !id.empty() && id.size() <= kMaxRequestId &&
         std::all_of(id.begin(), id.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

absl::Status FillNames(const v1::GenerateRequest& request, absl::string_view header,
                       GenerationRequest& to) {
  absl::Status status = CheckId("request_id", request.request_id());
  if (status.ok()) status = CheckId("x-request-id", header);
  if (!status.ok()) return status;
  if (!header.empty() && !request.request_id().empty() && header != request.request_id()) {
    return Invalid("request_id is \"", request.request_id(), "\", and x-request-id is \"", header,
                   "\": give one of them");
  }
  if (request.user().size() > kMaxUser) {
    return Invalid("user has ", request.user().size(), " bytes; at most ", kMaxUser);
  }
  to.id = request.request_id().empty() ? std::string(header) : request.request_id();
  to.user = request.user();
  return absl::OkStatus();
}

}  // namespace tandem::orchestrator
