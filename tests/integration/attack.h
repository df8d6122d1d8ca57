// Three services as processes, and what somebody who reaches their ports can do to them.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/process_cluster.h"
#include "tests/integration/requests.h"
#include "tests/integration/secure_services.h"
#include "tests/support/wait.h"

namespace grpc {
class Channel;
}

namespace tandem::testing {

class AttackTest : public ::testing::Test {
 protected:
  using Flags = std::vector<std::string>;

  // The orchestrator has these flags and limits; all three listen when this returns.
  void Start(const Flags& orchestrator_flags, std::vector<ResourceLimit> limits = {}) {
    target_ = std::make_unique<Service>("target", Flags{});
    draft_ = std::make_unique<Service>("draft", Flags{});
    orchestrator_ = std::make_unique<Service>(
        "orchestrator",
        Flags{"--target=" + target_->address(), "--draft=" + draft_->address()} +
            orchestrator_flags,
        0, std::move(limits));
  }

  // Whether `tandem generate` gets its text from the orchestrator, over a connection of its own.
  // `flags`: as a caller that may call.
  bool Serves(const Flags& flags = {}) {
    return Generate(orchestrator_->address(), flags).exit_code == 0;
  }
  bool ServesSoon(const Flags& flags = {}) {
    return WaitUntil([&] { return Serves(flags); });
  }

  // Prints what it is, for the log of the test.
  static int64_t PeakBytes(const std::string& what, const Service& service) {
    const int64_t bytes = service.process().PeakBytes();
    std::printf("%s: peak of resident memory %.1f MB\n", what.c_str(),
                static_cast<double>(bytes) / 1e6);
    return bytes;
  }

  std::unique_ptr<Service> target_, draft_, orchestrator_;
};

}  // namespace tandem::testing
