#include "common/security/caller_check.h"

#include <vector>

#include "absl/time/clock.h"

namespace tandem::security {

absl::Status CheckCaller(const grpc::ServerContextBase& context, absl::string_view method,
                         BearerTokens* tokens) {
  if (tokens == nullptr) return absl::OkStatus();
  std::vector<absl::string_view> values;
  const auto [begin, end] = context.client_metadata().equal_range("authorization");
  for (auto it = begin; it != end; ++it) {
    values.emplace_back(it->second.data(), it->second.size());
  }
  absl::Status status = tokens->Check(values);
  const absl::Time now = absl::Now();
  if (!status.ok()) tokens->refusals().Refused(method, status.message(), context.peer(), now);
  tokens->refusals().Look(now);
  return status;
}

}  // namespace tandem::security
