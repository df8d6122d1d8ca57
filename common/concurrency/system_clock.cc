#include "common/concurrency/system_clock.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>

#include "common/base/check.h"

namespace tandem::concurrency {

Instant SteadyClock::Now() const {
  return Instant(absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch()));
}

const SteadyClock& SteadyClock::Default() {
  static const SteadyClock clock;
  return clock;
}

void NameThisThread(const std::string& name) {
  pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
}

ThreadTimers::ThreadTimers(std::string name)
    : thread_([this, name = std::move(name)] { Run(name); }) {}

ThreadTimers::~ThreadTimers() {
  TANDEM_CHECK(std::this_thread::get_id() != thread_.get_id())
      << "timers destroyed by one of their own functions";
  {
    MutexLock lock(mutex_);
    closing_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
}

TimerId ThreadTimers::After(absl::Duration delay, std::function<void()> function) {
  TANDEM_CHECK(function != nullptr);
  // Half a century is as good as never, and adds up without overflow.
  delay = std::clamp(delay, absl::ZeroDuration(), absl::Hours(24 * 365 * 50));
  Instant due = clock_.Now() + delay;
  MutexLock lock(mutex_);
  TimerId id = ++last_id_;
  waiting_.emplace(std::make_pair(due, id), std::move(function));
  due_.emplace(id, due);
  bool first = waiting_.begin()->first.second == id;
  lock.Unlock();
  if (first) changed_.NotifyAll();
  return id;
}

void ThreadTimers::Cancel(TimerId id) {
  std::function<void()> cancelled;  // destroyed with no lock held
  MutexLock lock(mutex_);
  auto it = due_.find(id);
  if (it == due_.end()) return;
  auto waiting = waiting_.find({it->second, id});
  cancelled = std::move(waiting->second);
  waiting_.erase(waiting);
  due_.erase(it);
  lock.Unlock();
}

void ThreadTimers::Run(const std::string& name) {
  NameThisThread(name);
  std::map<std::pair<Instant, TimerId>, std::function<void()>> forgotten;
  MutexLock lock(mutex_);
  while (!closing_) {
    if (waiting_.empty()) {
      changed_.Wait(mutex_);
      continue;
    }
    absl::Duration wait = waiting_.begin()->first.first - clock_.Now();
    if (wait > absl::ZeroDuration()) {
      changed_.WaitFor(mutex_, std::min(wait, absl::Hours(24)));
      continue;
    }
    auto due = waiting_.extract(waiting_.begin());
    due_.erase(due.key().second);
    lock.Unlock();
    due.mapped()();
    due.mapped() = nullptr;  // what it holds may be the owner's last reference: drop it unlocked
    lock.Lock();
  }
  forgotten.swap(waiting_);
  lock.Unlock();
}

}  // namespace tandem::concurrency
