// Clients that ask without a pause, and hold every answer against the one that a quiet cluster
// gave.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/concurrency/mutex.h"
#include "tandem/v1/generation.pb.h"

namespace tandem::testing {

// Whose ids are the same whenever they are asked: rules greedy and coupled with seeds of their own,
// short and long, with drafts of all kinds and without.
std::vector<v1::GenerateRequest> DeterministicRequests();

// The ids of each, asked one after the other. CHECKs that all end well: the cluster is quiet.
// `address` may be a name.
std::vector<std::vector<uint32_t>> UndisturbedIds(const std::string& address,
                                                  const std::vector<v1::GenerateRequest>& requests);

// Whether what has not begun is sent again, to another orchestrator.
enum class Retries { kAsTheCommand, kNone };

struct LoadResult {
  uint64_t requests = 0;
  uint64_t failed = 0;
  uint64_t wrong = 0;                 // ended well, with other ids
  std::vector<std::string> troubles;  // the first ones of both
  uint64_t replays = 0;               // at other targets, or at the same again
  uint64_t reconnections = 0;         // of drafts
  absl::Duration longest;             // of a request

  std::string Text() const;
};

// Thread-safe. Runs from its making to Stop.
class Load {
 public:
  Load(const std::string& address, int clients, std::vector<v1::GenerateRequest> requests,
       std::vector<std::vector<uint32_t>> expected, Retries retries = Retries::kAsTheCommand);
  ~Load();

  // Waits until so many more requests have ended; false: they have not within a minute or two.
  bool WaitForMore(uint64_t requests) const;
  LoadResult SoFar() const;
  // No new requests; those that run are waited for.
  LoadResult Stop();

 private:
  void Run(int client);
  void Count(size_t request, const absl::Status& status, const std::vector<uint32_t>& ids,
             const v1::Last& last, absl::Duration took);

  const std::string address_;
  const std::vector<v1::GenerateRequest> requests_;
  const std::vector<std::vector<uint32_t>> expected_;
  const Retries retries_;
  std::atomic<bool> stop_ = false;
  mutable concurrency::Mutex mutex_;
  LoadResult result_ TANDEM_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;
};

}  // namespace tandem::testing
