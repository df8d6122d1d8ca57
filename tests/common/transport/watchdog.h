// Makes a hang a quick failure: a test that takes longer than this ends the process with its name.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "absl/time/time.h"
#include "common/concurrency/mutex.h"

namespace tandem::transport {

class Watchdog {
 public:
  explicit Watchdog(absl::Duration max = absl::Seconds(30)) : thread_([this, max] { Run(max); }) {}
  ~Watchdog() {
    {
      concurrency::MutexLock lock(mutex_);
      over_ = true;
    }
    changed_.NotifyAll();
    thread_.join();
  }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  void Run(absl::Duration max) {
    const absl::Time end = absl::Now() + max;
    concurrency::MutexLock lock(mutex_);
    while (!over_) {
      if (changed_.WaitFor(mutex_, end - absl::Now()) || absl::Now() < end) continue;
      std::fprintf(stderr, "%s hangs: it is not over after %s\n", name_.c_str(),
                   absl::FormatDuration(max).c_str());
      std::abort();
    }
  }

  static std::string CurrentTest() {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    return info == nullptr ? "the test" : std::string(info->test_suite_name()) + "." + info->name();
  }

  const std::string name_ = CurrentTest();
  concurrency::Mutex mutex_;
  concurrency::CondVar changed_;
  bool over_ TANDEM_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace tandem::transport
