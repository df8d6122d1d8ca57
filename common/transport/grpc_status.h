// Between gRPC's status and ours. Codes have the same numbers by design of both. What goes out has
// its details (common/messages/status_details.h); those that come in are dropped.
#pragma once

#include <grpcpp/support/status.h>

#include <string>

#include "absl/status/status.h"
#include "common/messages/status_details.h"

namespace tandem::transport {

inline grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return {static_cast<grpc::StatusCode>(status.code()), std::string(status.message()),
          messages::SerializeDetails(status)};
}

inline absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  return {static_cast<absl::StatusCode>(status.error_code()), status.error_message()};
}

}  // namespace tandem::transport
