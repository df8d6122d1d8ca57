// Where requests are parsed and tokenised: clients round-robin, and long work apart from short
// work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

#include "absl/time/time.h"
#include "common/concurrency/clock.h"
#include "common/concurrency/executor.h"
#include "common/concurrency/fair_executor.h"
#include "common/concurrency/instant.h"
#include "common/concurrency/mutex.h"

namespace tandem::orchestrator {

// The most bytes of a request, at each front.
inline constexpr size_t kMaxRequestBytes = size_t{8} << 20;
// Bytes of a message. What is longer takes long to parse and to tokenise.
inline constexpr size_t kLongRequest = 16384;

// Which work is long: a request above kLongRequest, and each request of a client that has had its
// share of this second. Many requests of 8 KiB are as much work as one of a megabyte. All clients
// together have kShortBytes a second, in equal shares: a client that is alone has all of it, and
// one with little to do waits for nobody's long work.
//
// Thread-safe.
class LongWork {
 public:
  // A second of short work takes an eighth of a core.
  static constexpr size_t kShortBytes = size_t{256} << 10;
  // A client has at least this, however many there are.
  static constexpr size_t kLeastShare = 1024;

  // `clock` outlives this object.
  explicit LongWork(const concurrency::Clock& clock) : clock_(clock) {}

  // Whether a request of so many bytes, which comes now, is long work.
  bool IsLong(const std::string& client, size_t bytes);

 private:
  const concurrency::Clock& clock_;
  concurrency::Mutex mutex_;
  concurrency::Instant began_ TANDEM_GUARDED_BY(mutex_);                     // the present second
  std::unordered_map<std::string, size_t> spent_ TANDEM_GUARDED_BY(mutex_);  // in it, by client
};

// Thread-safe.
class WorkTurns {
 public:
  // Executors and clock outlive this object. `long_workers` null: `workers` do the long work, too.
  WorkTurns(const concurrency::Clock& clock, concurrency::Executor& workers, size_t threads,
            concurrency::Executor* long_workers, size_t long_threads);

  // Runs the task when the client has its turn (FairExecutor). `bytes`: of the request.
  void Post(const std::string& client, size_t bytes, concurrency::Task task);

 private:
  LongWork long_work_;
  concurrency::FairExecutor short_turns_;
  std::optional<concurrency::FairExecutor> long_turns_;  // absent: there are no such workers
};

}  // namespace tandem::orchestrator
