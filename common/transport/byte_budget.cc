#include "common/transport/byte_budget.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tandem::transport {
namespace {

// How many times what it leaves free an address may take.
constexpr size_t kAddressShare = 3;

using Bytes = absl::flat_hash_map<std::string, size_t>;

size_t Of(const Bytes& taken, absl::string_view name) {
  const auto it = taken.find(name);
  return it == taken.end() ? 0 : it->second;
}

void GiveBack(Bytes& taken, absl::string_view name, size_t bytes) {
  const auto it = taken.find(name);
  it->second -= bytes;
  if (it->second == 0) taken.erase(it);
}

absl::Status TooMuch(absl::string_view whose, size_t taken, size_t bytes, size_t most) {
  return absl::ResourceExhaustedError(
      absl::StrCat("the requests ", whose, "that wait to be checked take ", taken,
                   " bytes, and this one ", bytes, "; at most ", most, ": try again later"));
}

}  // namespace

absl::string_view AddressOf(absl::string_view peer) { return peer.substr(0, peer.rfind(':')); }

ByteBudget::ByteBudget(size_t max_bytes) : state_(std::make_shared<State>(max_bytes)) {}

absl::StatusOr<ByteBudget::Hold> ByteBudget::Take(const std::string& caller, size_t bytes) {
  State& state = *state_;
  const absl::string_view address = AddressOf(caller);
  concurrency::MutexLock lock(state.mutex);
  const size_t max_each = state.max / 4;
  const size_t its = Of(state.by_caller, caller);
  if (its + bytes > max_each) return TooMuch("of this connection ", its, bytes, max_each);
  if (state.taken + bytes > state.max) return TooMuch("", state.taken, bytes, state.max);
  const size_t max_address = (state.max - state.taken - bytes) * kAddressShare;
  const size_t together = Of(state.by_address, address);
  if (together + bytes > max_address) {
    return TooMuch("of this address ", together, bytes, max_address);
  }
  state.taken += bytes;
  state.by_caller[caller] += bytes;
  state.by_address[address] += bytes;
  return Hold(nullptr, [state = state_, caller, bytes](const void*) {
    concurrency::MutexLock release(state->mutex);
    state->taken -= bytes;
    GiveBack(state->by_caller, caller, bytes);
    GiveBack(state->by_address, AddressOf(caller), bytes);
  });
}

}  // namespace tandem::transport
