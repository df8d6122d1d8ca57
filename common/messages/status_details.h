// Details of an error in the field's own form: google.rpc.Status with BadRequest and RetryInfo,
// which gRPC's clients read from the trailer grpc-status-details-bin. A status carries each detail
// as a payload, named by its type.
//
// These three messages are written by hand, field by field (ADR 2026-11-23-error-details).
//
// Thread safety: pure functions.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace tandem::messages {

inline constexpr absl::string_view kBadRequestType = "type.googleapis.com/google.rpc.BadRequest";
inline constexpr absl::string_view kRetryInfoType = "type.googleapis.com/google.rpc.RetryInfo";

// BadRequest with one violation: `field`, a path in the request, and the status' own message.
void AddBadRequest(absl::string_view field, absl::Status& status);
// RetryInfo: the client may ask again after `delay`, which is not negative.
void AddRetryInfo(absl::Duration delay, absl::Status& status);
// What AddRetryInfo added last; nothing: it was never called.
std::optional<absl::Duration> RetryDelay(const absl::Status& status);

// google.rpc.Status with code, message and the details above, as bytes; empty: it has none of them,
// or its message is so long (over 1 KiB) that they might not fit into the trailers.
std::string SerializeDetails(const absl::Status& status);

}  // namespace tandem::messages
