#include "orchestrator/request/failure_cause.h"

namespace tandem::orchestrator {

FailureCause CauseOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kAborted:  // it did not read for --reader-patience
      return FailureCause::kClient;
    // Neither may page anybody: a client can send too much, and set a deadline that no service
    // meets.
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kDeadlineExceeded:
      return FailureCause::kLoad;
    // FAILED_PRECONDITION among them: the services do not fit each other.
    default:
      return FailureCause::kServer;
  }
}

const char* Name(FailureCause cause) {
  switch (cause) {
    case FailureCause::kClient:
      return "client";
    case FailureCause::kLoad:
      return "load";
    case FailureCause::kServer:
      return "server";
  }
  return "server";
}

}  // namespace tandem::orchestrator
