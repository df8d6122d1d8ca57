#include "common/concurrency/worker_pool.h"

#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/concurrency/system_clock.h"

namespace tandem::concurrency {

WorkerPool::WorkerPool(const std::string& name, int threads, int stand_back) {
  TANDEM_CHECK(threads > 0);
  threads_.reserve(threads);
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back(
        [this, its = absl::StrCat(name, "-", i), stand_back] { Run(its, stand_back); });
  }
}

WorkerPool::~WorkerPool() { Close(); }

bool WorkerPool::Post(Task task) {
  TANDEM_CHECK(task != nullptr);
  {
    MutexLock lock(mutex_);
    if (closed_) return false;
    queue_.push_back(std::move(task));
  }
  changed_.NotifyOne();
  return true;
}

void WorkerPool::Close() {
  {
    MutexLock lock(mutex_);
    closed_ = true;
  }
  changed_.NotifyAll();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void WorkerPool::Run(const std::string& name, int stand_back) {
  NameThisThread(name);
  // Linux has a niceness for each thread. It is added to the process's own, 19 at most.
  if (stand_back != 0) nice(stand_back);
  MutexLock lock(mutex_);
  while (true) {
    while (queue_.empty() && !closed_) changed_.Wait(mutex_);
    if (queue_.empty()) break;
    Task task = std::move(queue_.front());
    queue_.pop_front();
    lock.Unlock();
    task();
    task = nullptr;
    lock.Lock();
  }
  lock.Unlock();
}

}  // namespace tandem::concurrency
