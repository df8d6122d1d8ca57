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
  TANDEM_CHECK(line_.empty()) << line_.size() << " tasks wait";
}

void FairExecutor::Post(const std::string& client, Task task, absl::Duration rest) {
  TANDEM_CHECK(task != nullptr);
  {
    MutexLock lock(mutex_);
    line_.Join(client, ++last_number_);
    waiting_.emplace(last_number_, Waiting{client, std::move(task), rest});
  }
  RunNext();
}

void FairExecutor::RunNext() {
  while (true) {
    auto next = std::make_shared<Waiting>();  // a task is moved only, and may be refused
    {
      MutexLock lock(mutex_);
      if (running_ >= max_running_ || line_.empty()) return;
      const uint64_t number = line_.Front();
      *next = std::move(waiting_.extract(number).mapped());
      line_.Leave(next->client, number, /*had_turn=*/true);
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
