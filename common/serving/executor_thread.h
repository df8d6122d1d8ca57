// The thread that runs an executor.
#pragma once

#include <string>
#include <thread>
#include <utility>

#include "common/concurrency/system_clock.h"

namespace tandem::serving {

// From construction to destruction, which waits until what was queued is done. `executor` (derived
// from serving::Executor) outlives it.
template <typename Executor>
class ExecutorThread {
 public:
  ExecutorThread(std::string name, Executor& executor)
      : executor_(executor), thread_([name = std::move(name), &executor] {
          concurrency::NameThisThread(name);
          executor.Run();
        }) {}
  ~ExecutorThread() {
    executor_.Stop();
    thread_.join();
  }
  ExecutorThread(const ExecutorThread&) = delete;
  ExecutorThread& operator=(const ExecutorThread&) = delete;

 private:
  Executor& executor_;
  std::thread thread_;
};

}  // namespace tandem::serving
