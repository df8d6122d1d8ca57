#include "common/concurrency/strand.h"

#include <deque>
#include <utility>

#include "common/base/check.h"
#include "common/concurrency/mutex.h"

namespace tandem::concurrency {

struct Strand::State {
  mutable Mutex mutex;
  std::deque<Task> queue TANDEM_GUARDED_BY(mutex);
  bool running TANDEM_GUARDED_BY(mutex) = false;
};

Strand::Strand() : state_(std::make_shared<State>()) {}
Strand::~Strand() = default;

bool Strand::Post(Task task) {
  TANDEM_CHECK(task != nullptr);
  std::shared_ptr<State> state = state_;  // `this` may end inside a task
  MutexLock lock(state->mutex);
  state->queue.push_back(std::move(task));
  if (state->running) return true;
  state->running = true;
  while (!state->queue.empty()) {
    Task next = std::move(state->queue.front());
    state->queue.pop_front();
    lock.Unlock();
    next();
    next = nullptr;
    lock.Lock();
  }
  state->running = false;
  lock.Unlock();
  return true;
}

}  // namespace tandem::concurrency
