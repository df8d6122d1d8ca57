#include "common/concurrency/executor.h"

#include <utility>

#include "common/base/check.h"
#include "common/concurrency/system_clock.h"

namespace tandem::concurrency {

struct SerialExecutor::State {
  mutable Mutex mutex;
  std::deque<Task> queue TANDEM_GUARDED_BY(mutex);
  bool running TANDEM_GUARDED_BY(mutex) = false;
  std::thread::id runner TANDEM_GUARDED_BY(mutex);
};

SerialExecutor::SerialExecutor() : state_(std::make_shared<State>()) {}
SerialExecutor::~SerialExecutor() = default;

bool SerialExecutor::Post(Task task) {
  TANDEM_CHECK(task != nullptr);
  std::shared_ptr<State> state = state_;  // `this` may end inside a task
  MutexLock lock(state->mutex);
  state->queue.push_back(std::move(task));
  if (state->running) return true;
  state->running = true;
  state->runner = std::this_thread::get_id();
  while (!state->queue.empty()) {
    Task next = std::move(state->queue.front());
    state->queue.pop_front();
    lock.Unlock();
    next();
    next = nullptr;
    lock.Lock();
  }
  state->running = false;
  state->runner = std::thread::id();
  lock.Unlock();
  return true;
}

bool SerialExecutor::RunsHere() const {
  MutexLock lock(state_->mutex);
  return state_->running && state_->runner == std::this_thread::get_id();
}

ThreadExecutor::ThreadExecutor(std::string name)
    : thread_([this, name = std::move(name)] { Run(name); }), thread_id_(thread_.get_id()) {}

ThreadExecutor::~ThreadExecutor() { Close(); }

bool ThreadExecutor::Post(Task task) {
  TANDEM_CHECK(task != nullptr);
  {
    MutexLock lock(mutex_);
    if (closed_) return false;
    queue_.push_back(std::move(task));
  }
  changed_.NotifyOne();
  return true;
}

void ThreadExecutor::Close() {
  TANDEM_CHECK(!RunsHere()) << "an executor closed by one of its own tasks";
  {
    MutexLock lock(mutex_);
    closed_ = true;
  }
  changed_.NotifyAll();
  MutexLock lock(join_mutex_);
  if (!joined_) thread_.join();
  joined_ = true;
}

size_t ThreadExecutor::queued() const {
  MutexLock lock(mutex_);
  return queue_.size();
}

void ThreadExecutor::Run(const std::string& name) {
  NameThisThread(name);
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
