// Memory that callers may take: in all, each, and those of one address together.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/concurrency/mutex.h"

namespace tandem::transport {

// The address of a peer as gRPC names it, without its port: "ipv4:10.0.0.7" of
// "ipv4:10.0.0.7:41234".
absl::string_view AddressOf(absl::string_view peer);

// Thread-safe.
class ByteBudget {
 public:
  // Bytes, until it is destroyed. It may outlive the budget.
  using Hold = std::shared_ptr<const void>;

  // `max_bytes`: of all callers together. One of them takes a quarter of it at most. Those of one
  // address take at most three times what they leave free. So a single address has three quarters,
  // each of several has less, and some is left for the next one.
  explicit ByteBudget(size_t max_bytes);

  // Never waits. `caller`: a name for the caller, such as its connection ("ipv4:10.0.0.7:41234").
  // RESOURCE_EXHAUSTED says who has taken too much: the caller, its address, or all together.
  absl::StatusOr<Hold> Take(const std::string& caller, size_t bytes);

 private:
  struct State {
    explicit State(size_t max_bytes) : max(max_bytes) {}
    const size_t max;
    concurrency::Mutex mutex;
    size_t taken TANDEM_GUARDED_BY(mutex) = 0;
    absl::flat_hash_map<std::string, size_t> by_caller TANDEM_GUARDED_BY(mutex);
    absl::flat_hash_map<std::string, size_t> by_address TANDEM_GUARDED_BY(mutex);
  };

  const std::shared_ptr<State> state_;
};

}  // namespace tandem::transport
