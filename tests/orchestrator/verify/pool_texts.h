// Requests for tests over several targets, and what must come of them.
#pragma once

#include "gtest/gtest.h"
#include "tests/orchestrator/harness/pool_harness.h"

namespace tandem::orchestrator {

// Without a draft. At temperature 1 a verdict that was lost, doubled or another target's would
// show.
inline GenerationRequest Text(uint64_t seed, uint32_t tokens = 40, double temperature = 1) {
  GenerationRequest request = SmallRequest(0u, temperature);
  request.seed = seed;
  request.max_tokens = tokens;
  request.prompt[0] = static_cast<uint32_t>(seed % 8);
  return request;
}

inline void ExpectRight(const PoolHarness::Request& request) {
  ASSERT_TRUE(request.ending.has_value());
  ASSERT_TRUE(request.ending->status.ok()) << request.ending->status;
  EXPECT_EQ(request.output(), PlainIds(request.request));
}

}  // namespace tandem::orchestrator
