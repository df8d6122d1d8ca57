// Why a Step or an Advance was not served: the status of its answer and the details.
//
// Thread safety: plain values.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "tandem/internal/v1/tokens.pb.h"

namespace tandem::messages {

struct Refusal {
  internal::v1::Status status = internal::v1::STATUS_UNSPECIFIED;
  internal::v1::Problem problem;
};

inline Refusal MakeRefusal(internal::v1::Status status, std::string message) {
  Refusal refusal{status, {}};
  refusal.problem.set_message(std::move(message));
  return refusal;
}

// `field`: its path in the message that is refused, such as "options.sampling.top_p".
inline Refusal Invalid(std::string field, std::string message) {
  Refusal refusal = MakeRefusal(internal::v1::STATUS_INVALID, std::move(message));
  refusal.problem.set_field(std::move(field));
  return refusal;
}

inline Refusal NeedPrefix(uint32_t held, std::string message) {
  Refusal refusal = MakeRefusal(internal::v1::STATUS_NEED_PREFIX, std::move(message));
  refusal.problem.set_held(held);
  return refusal;
}

inline Refusal NoSlot(absl::Duration retry_after, std::string message) {
  Refusal refusal = MakeRefusal(internal::v1::STATUS_NO_SLOT, std::move(message));
  refusal.problem.set_retry_after_us(absl::ToInt64Microseconds(retry_after));
  return refusal;
}

}  // namespace tandem::messages
