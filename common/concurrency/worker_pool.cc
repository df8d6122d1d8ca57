#include "common/concurrency/worker_pool.h"

#include <sys/resource.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/concurrency/system_clock.h"

namespace tandem::concurrency {

WorkerPool::WorkerPool(const std::string& name, int threads, int nice) {
  TANDEM_CHECK(threads > 0);
  threads_.reserve(threads);
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back([this, its = absl::StrCat(name, "-", i), nice] { Run(its, nice); });
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

void WorkerPool::Run(const std::string& name, int nice) {
  NameThisThread(name);
  // Linux has a priority for each thread.
  if (nice != 0) setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), nice);
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
