// Eight clients of an orchestrator: half are `tandem generate`, each with a connection of its own;
// half share a connection that stands.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/concurrency/mutex.h"
#include "tests/integration/requests.h"
#include "tests/integration/secure_services.h"
#include "tests/support/wait.h"

namespace grpc {
class Channel;
}

namespace tandem::testing {

inline constexpr size_t kClients = 8;

// Requests one after another, from its making to its end. Thread safety: one thread.
class SecureLoad {
 public:
  SecureLoad(std::string address, std::vector<std::string> flags,
             std::shared_ptr<grpc::Channel> channel)
      : address_(std::move(address)), flags_(std::move(flags)), channel_(std::move(channel)) {
    for (size_t i = 0; i < kClients; ++i) {
      threads_.emplace_back([this, i] { i % 2 == 0 ? RunCommands(done_[i]) : RunCalls(done_[i]); });
    }
  }
  ~SecureLoad() { End(); }

  void End() {
    over_ = true;
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }
  // Waits until each client is through with a request that began after this call.
  void GoOn() {
    std::array<int, kClients> before;
    std::copy(done_.begin(), done_.end(), before.begin());
    for (size_t i = 0; i < kClients; ++i) {
      EXPECT_TRUE(WaitUntil([&] { return done_[i] >= before[i] + 2; })) << "client " << i;
    }
  }
  std::vector<std::string> failures() {
    concurrency::MutexLock lock(mutex_);
    return failures_;
  }
  // All that the commands wrote.
  std::string said() {
    concurrency::MutexLock lock(mutex_);
    return said_;
  }

 private:
  void RunCommands(std::atomic<int>& done) {
    while (!over_) {
      const CommandResult result = Generate(address_, flags_);
      Note(result.exit_code == 0 ? "" : result.output, result.output);
      ++done;
    }
  }
  void RunCalls(std::atomic<int>& done) {
    while (!over_) {
      const Reply reply = Send(channel_, GreedyRequest({1, 2, 3}, 16, 4));
      Note(reply.status.ok() ? "" : reply.status.ToString(), "");
      ++done;
    }
  }
  void Note(const std::string& failure, const std::string& said) {
    concurrency::MutexLock lock(mutex_);
    if (!failure.empty()) failures_.push_back(failure);
    said_ += said;
  }

  const std::string address_;
  const std::vector<std::string> flags_;
  const std::shared_ptr<grpc::Channel> channel_;
  std::atomic<bool> over_ = false;
  std::array<std::atomic<int>, kClients> done_ = {};
  concurrency::Mutex mutex_;
  std::vector<std::string> failures_ TANDEM_GUARDED_BY(mutex_);
  std::string said_ TANDEM_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;  // last
};

}  // namespace tandem::testing
