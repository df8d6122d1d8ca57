// Tasks of many clients on one executor, round-robin over the clients.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>

#include "absl/time/time.h"
#include "common/concurrency/client_turns.h"
#include "common/concurrency/executor.h"
#include "common/concurrency/mutex.h"

namespace tandem::concurrency {

// An executor runs tasks in the order in which they came, so whoever posts a thousand of them keeps
// all others waiting. Here clients have turns (client_turns.h): whoever comes waits for one task of
// each other address, and of each other connection of its own address, at most.
//
// Thread-safe.
class FairExecutor {
 public:
  // `executor` outlives this object. `max_running`: tasks that are with it at a time, at least 1.
  // As many as it has threads: what is with the executor has no turns any more.
  FairExecutor(Executor& executor, size_t max_running);
  // Nothing waits or runs.
  ~FairExecutor();
  FairExecutor(const FairExecutor&) = delete;
  FairExecutor& operator=(const FairExecutor&) = delete;

  // Runs the task on the executor when the client has its turn; its own tasks in their order. On
  // this thread or another one if the executor is closed.
  //
  // `rest`: how long the executor's thread sleeps after the task, before the next one of anybody.
  // So it bounds how often such tasks come, where each also costs something that has no turns.
  // Where it is not zero, the thread sleeps at least as long as the task computed (processor time):
  // such tasks take half of a core at most.
  void Post(const std::string& client, Task task, absl::Duration rest = absl::ZeroDuration())
      TANDEM_EXCLUDES(mutex_);

 private:
  struct Waiting {
    std::string client;
    Task task;
    absl::Duration rest;
  };

  void RunNext() TANDEM_EXCLUDES(mutex_);
  void OnEnded() TANDEM_EXCLUDES(mutex_);

  Executor& executor_;
  const size_t max_running_;
  Mutex mutex_;
  CondVar idle_;
  size_t running_ TANDEM_GUARDED_BY(mutex_) = 0;
  size_t ending_ TANDEM_GUARDED_BY(mutex_) = 0;  // threads in OnEnded
  uint64_t last_number_ TANDEM_GUARDED_BY(mutex_) = 0;
  ClientTurns line_ TANDEM_GUARDED_BY(mutex_);
  std::unordered_map<uint64_t, Waiting> waiting_ TANDEM_GUARDED_BY(mutex_);  // those in line_
};

}  // namespace tandem::concurrency
