#include "common/transport/byte_budget.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tandem::transport {

ByteBudget::ByteBudget(size_t max_bytes) : state_(std::make_shared<State>(max_bytes)) {}

absl::StatusOr<ByteBudget::Hold> ByteBudget::Take(const std::string& caller, size_t bytes) {
  State& state = *state_;
  concurrency::MutexLock lock(state.mutex);
  const auto it = state.by_caller.find(caller);
  const size_t its = it == state.by_caller.end() ? 0 : it->second;
  const size_t max_each = state.max / 4;
  if (its + bytes > max_each) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the requests of this connection that wait to be checked take ", its,
                     " bytes, and this one ", bytes, "; at most ", max_each, ": try again later"));
  }
  if (state.taken + bytes > state.max) {
    return absl::ResourceExhaustedError(absl::StrCat("the requests that wait to be checked take ",
                                                     state.taken, " bytes, and this one ", bytes,
                                                     "; at most ", state.max, ": try again later"));
  }
  state.taken += bytes;
  state.by_caller[caller] += bytes;
  return Hold(nullptr, [state = state_, caller, bytes](const void*) {
    concurrency::MutexLock release(state->mutex);
    state->taken -= bytes;
    const auto own = state->by_caller.find(caller);
    own->second -= bytes;
    if (own->second == 0) state->by_caller.erase(own);
  });
}

}  // namespace tandem::transport
