// What is required and what there is, before it is used.
#include "common/process/room.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <string>
#include <vector>

namespace tandem::process {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::vector<MemoryPart> kParts = {{"weights", 600'000'000},
                                        {"stacks", 300'000'000, /*is_written=*/false},
                                        {"activations", 1'000'000}};

TEST(CheckMemory, WhatFitsIsNoError) {
  EXPECT_TRUE(CheckMemory("model", kParts, {}).ok());
  EXPECT_TRUE(CheckMemory("model", kParts, {901'000'000, 601'000'000}).ok());
}

TEST(CheckMemory, TheErrorHasEachPartTheSumAndWhatThereIs) {
  const absl::Status status = CheckMemory("model", kParts, {900'999'999, INT64_MAX});
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(
      std::string(status.message()),
      AllOf(HasSubstr("model: "), HasSubstr("weights 600.0 MB"), HasSubstr("stacks 300.0 MB"),
            HasSubstr("activations 1.0 MB"), HasSubstr("together 901.0 MB"),
            HasSubstr("there are 901.0 MB"), HasSubstr("ulimit -v")));
}

TEST(CheckMemory, WhatIsReservedAloneNeedsNoMemory) {
  const absl::Status status = CheckMemory("model", kParts, {INT64_MAX, 600'999'999});
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("together 601.0 MB"),
                                                   HasSubstr("there are 601.0 MB in the machine")));
}

TEST(ThisFreeMemory, FollowsTheLimitOfAddresses) {
  EXPECT_GT(ThisFreeMemory().memory_bytes, 0);
  rlimit before{};  // a sanitizer has reserved terabytes: the limit is above that
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  rlimit few = before;
  few.rlim_cur = std::min<rlim_t>(before.rlim_max, rlim_t{1} << 47);
  ASSERT_EQ(setrlimit(RLIMIT_AS, &few), 0);
  EXPECT_GT(ThisFreeMemory().address_bytes, 0);
  EXPECT_LT(ThisFreeMemory().address_bytes, int64_t{1} << 47);
  setrlimit(RLIMIT_AS, &before);
}

TEST(CheckRoomForService, ThereIsRoomHere) { EXPECT_TRUE(CheckRoomForService().ok()); }

}  // namespace
}  // namespace tandem::process
