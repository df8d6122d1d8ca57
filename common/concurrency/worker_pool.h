// Threads that take tasks from one queue.
#pragma once

#include <deque>
#include <string>
#include <thread>
#include <vector>

#include "common/concurrency/executor.h"
#include "common/concurrency/mutex.h"

namespace tandem::concurrency {

// For work that would keep a thread of the transport from its reading and writing. Tasks start in
// the order of Post and run side by side. The queue is unbounded: its users bound what they post.
//
// Thread-safe.
class WorkerPool final : public Executor {
 public:
  // `threads`: at least 1. They are called `name`-0, `name`-1 … `stand_back`: 0 to 19, how far they
  // stand back where others of this process want the processor.
  WorkerPool(const std::string& name, int threads, int stand_back = 0);
  // Closes.
  ~WorkerPool() override;
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  bool Post(Task task) override TANDEM_EXCLUDES(mutex_);

  // Accepts nothing more, runs all that was accepted, and joins. Not from a task of its own, and by
  // one thread.
  void Close() TANDEM_EXCLUDES(mutex_);

 private:
  void Run(const std::string& name, int stand_back) TANDEM_EXCLUDES(mutex_);

  Mutex mutex_;
  CondVar changed_;
  std::deque<Task> queue_ TANDEM_GUARDED_BY(mutex_);
  bool closed_ TANDEM_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace tandem::concurrency
