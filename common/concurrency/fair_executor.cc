#include "common/concurrency/fair_executor.h"

#include <memory>
#include <utility>

#include "common/base/check.h"

namespace tandem::concurrency {

FairExecutor::FairExecutor(Executor& executor, size_t max_running)
    : executor_(executor), max_running_(max_running) {
  TANDEM_CHECK(max_running > 0);
}

FairExecutor::~FairExecutor() {
  MutexLock lock(mutex_);
  // A task may have told its end before the thread that ran it came back from it.
  while (running_ > 0 || ending_ > 0) idle_.Wait(mutex_);
  TANDEM_CHECK(lines_.empty()) << lines_.size() << " clients wait";
}

void FairExecutor::Post(const std::string& client, Task task) {
  TANDEM_CHECK(task != nullptr);
  {
    MutexLock lock(mutex_);
    std::deque<Task>& line = lines_[client];
    if (line.empty()) turns_.push_back(client);
    line.push_back(std::move(task));
  }
  RunNext();
}

void FairExecutor::RunNext() {
  while (true) {
    auto task = std::make_shared<Task>();  // a task is moved only, and may be refused
    {
      MutexLock lock(mutex_);
      if (running_ >= max_running_ || turns_.empty()) return;
      const auto line = lines_.find(turns_.front());
      turns_.pop_front();
      *task = std::move(line->second.front());
      line->second.pop_front();
      if (line->second.empty()) {
        lines_.erase(line);
      } else {
        turns_.push_back(line->first);
      }
      ++running_;
    }
    const auto run = [this, task] {
      (*task)();
      *task = nullptr;
      OnEnded();
    };
    if (!executor_.Post(run)) run();
  }
}

void FairExecutor::OnEnded() {
  {
    MutexLock lock(mutex_);
    --running_;
    ++ending_;
  }
  RunNext();
  MutexLock lock(mutex_);
  --ending_;
  idle_.NotifyAll();  // with the lock held: this object may end once it is free
}

}  // namespace tandem::concurrency
