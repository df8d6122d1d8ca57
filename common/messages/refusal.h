// Why a Step or an Advance was not served: the status of its answer and the details.
//
// Thread safety: plain values.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "tandem/v1/tokens.pb.h"

namespace tandem::messages {

struct Refusal {
  v1::Status status = v1::STATUS_UNSPECIFIED;
  v1::Problem problem;
};

inline Refusal MakeRefusal(v1::Status status, std::string message) {
  Refusal refusal{status, {}};
  refusal.problem.set_message(std::move(message));
  return refusal;
}

// `field`: its path in the message that is refused, such as "options.sampling.top_p".
inline Refusal Invalid(std::string field, std::string message) {
  Refusal refusal = MakeRefusal(v1::STATUS_INVALID, std::move(message));
  refusal.problem.set_field(std::move(field));
  return refusal;
}

inline Refusal NeedPrefix(uint32_t held, std::string message) {
  Refusal refusal = MakeRefusal(v1::STATUS_NEED_PREFIX, std::move(message));
  refusal.problem.set_held(held);
  return refusal;
}

inline Refusal NoSlot(absl::Duration retry_after, std::string message) {
  Refusal refusal = MakeRefusal(v1::STATUS_NO_SLOT, std::move(message));
  refusal.problem.set_retry_after_us(absl::ToInt64Microseconds(retry_after));
  return refusal;
}

}  // namespace tandem::messages
