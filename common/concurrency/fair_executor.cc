#include "common/concurrency/fair_executor.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/time/clock.h"
#include "common/base/check.h"
#include "common/concurrency/instant.h"
#include "common/concurrency/thread_cpu_clock.h"

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

void FairExecutor::Post(const std::string& client, Task task, absl::Duration rest) {
  TANDEM_CHECK(task != nullptr);
  {
    MutexLock lock(mutex_);
    std::deque<Waiting>& line = lines_[client];
    if (line.empty()) turns_.push_back(client);
    line.push_back({std::move(task), rest});
  }
  RunNext();
}

void FairExecutor::RunNext() {
  while (true) {
    auto next = std::make_shared<Waiting>();  // a task is moved only, and may be refused
    {
      MutexLock lock(mutex_);
      if (running_ >= max_running_ || turns_.empty()) return;
      const auto line = lines_.find(turns_.front());
      turns_.pop_front();
      *next = std::move(line->second.front());
      line->second.pop_front();
      if (line->second.empty()) {
        lines_.erase(line);
      } else {
        turns_.push_back(line->first);
      }
      ++running_;
    }
    const auto run = [this, next](bool on_executor) {
      const ThreadCpuClock clock;
      const Instant begin = clock.Now();
      next->task();
      next->task = nullptr;
      if (on_executor && next->rest > absl::ZeroDuration()) {
        absl::SleepFor(std::max(next->rest, clock.Now() - begin));
      }
      OnEnded();
    };
    if (!executor_.Post([run] { run(true); })) run(false);
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
