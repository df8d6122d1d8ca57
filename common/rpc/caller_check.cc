#include "common/rpc/caller_check.h"

#include <vector>

#include "common/config/log.h"
#include "common/config/log_fields.h"

namespace tandem::rpc {

absl::Status CheckCaller(const grpc::ServerContextBase& context, absl::string_view method,
                         BearerTokens* tokens) {
  if (tokens == nullptr) return absl::OkStatus();
  std::vector<absl::string_view> values;
  const auto [begin, end] = context.client_metadata().equal_range("authorization");
  for (auto it = begin; it != end; ++it) {
    values.emplace_back(it->second.data(), it->second.size());
  }
  absl::Status status = tokens->Check(values);
  if (!status.ok()) {
    TANDEM_LOG(kWarning) << config::LogFields("unauthenticated")
                                .Add("method", method)
                                .Add("peer", context.peer())
                                .Add("reason", status.message());
  }
  return status;
}

}  // namespace tandem::rpc
