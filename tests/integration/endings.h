// How processes end, and what they say of it.
#pragma once

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tests/integration/process_cluster.h"
#include "tests/support/wait.h"

namespace tandem::testing {

// Not to wait for a grace of an hour, on a busy machine.
inline constexpr absl::Duration kSoon = absl::Seconds(30);

inline std::string At(int port) { return absl::StrCat("127.0.0.1:", port); }

inline bool Says(const Process& process, const std::string& words) {
  return absl::StrContains(process.Output(), words);
}
inline bool WaitUntilItSays(const Process& process, const std::string& words) {
  return WaitUntil([&] { return Says(process, words); });
}

// Waits for a process's own end, and says how long that took from now.
inline absl::Duration TimeToEnd(Process& process) {
  const absl::Time begin = absl::Now();
  EXPECT_EQ(process.Wait(), 0) << process.Output();
  return absl::Now() - begin;
}

}  // namespace tandem::testing
