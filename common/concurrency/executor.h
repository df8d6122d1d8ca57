// What runs a function: a Strand (strand.h) or the threads of a WorkerPool
// (worker_pool.h).
#pragma once

#include "absl/functional/any_invocable.h"

namespace tandem::concurrency {

using Task = absl::AnyInvocable<void()>;

// Thread-safe. A task is destroyed right after it ran, with no lock held.
//
// Nobody calls Post while holding a lock. A Strand runs tasks, of others too, inside Post; a
// lock held there would be held in them.
class Executor {
 public:
  virtual ~Executor() = default;
  // False: the executor is closed; the task does not run and is destroyed before Post returns.
  virtual bool Post(Task task) = 0;
};

}  // namespace tandem::concurrency
