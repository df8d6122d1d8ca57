#include "orchestrator/stream/unread_replies.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem::orchestrator {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::shared_ptr<UnreadReplies> All(size_t max_bytes, size_t max_calls = 100) {
  return std::make_shared<UnreadReplies>(UnreadLimits{max_calls, max_bytes});
}

// A call that keeps what it was told.
struct Call {
  explicit Call(std::shared_ptr<UnreadReplies> all) : unread(std::move(all)) {
    unread.WhenOver([this](absl::Status status) { told.push_back(std::move(status)); });
  }
  UnreadCall unread;
  std::vector<absl::Status> told;
};

TEST(UnreadReplies, ACallIsBehindBeyondItsBytesAndCatchesUpAtHalfOfThem) {
  UnreadCall call(nullptr, 100);
  call.Add(100);
  EXPECT_FALSE(call.behind());
  call.Add(1);
  EXPECT_TRUE(call.behind());
  call.Remove(50);
  EXPECT_FALSE(call.behind());
  EXPECT_FALSE(call.caught_up());
  call.Remove(1);
  EXPECT_TRUE(call.caught_up());
  call.Clear();
  EXPECT_EQ(call.bytes(), 0u);
}

TEST(UnreadReplies, WhoeverHoldsTheMostEndsWhoeverSentLast) {
  const auto all = All(1000);
  Call large(all), small(all), reader(all);
  large.unread.Add(700);
  small.unread.Add(250);
  EXPECT_TRUE(large.told.empty());
  reader.unread.Add(60);
  ASSERT_EQ(large.told.size(), 1u);
  EXPECT_TRUE(small.told.empty());
  EXPECT_TRUE(reader.told.empty());
  EXPECT_EQ(large.told[0].code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(large.told[0].message()),
              AllOf(HasSubstr("1010 bytes of at most 1000"), HasSubstr("this call has 700"),
                    HasSubstr("--max-unread-bytes")));
  EXPECT_EQ(all->counts().bytes, 310u);
  // Nothing of it counts any more, and it is told once.
  large.unread.Add(5000);
  large.unread.Remove(5700);
  EXPECT_EQ(all->counts().bytes, 310u);
  EXPECT_EQ(large.told.size(), 1u);
  EXPECT_TRUE(small.told.empty());
}

TEST(UnreadReplies, AsManyEndAsMakeTheRestFit) {
  const auto all = All(1000);
  Call first(all), second(all), third(all);
  first.unread.Add(300);
  second.unread.Add(400);
  third.unread.Add(1500);
  EXPECT_EQ(third.told.size(), 1u);
  EXPECT_TRUE(first.told.empty() && second.told.empty());
  EXPECT_EQ(all->counts().bytes, 700u);
  first.unread.Add(550);  // 1250: without itself the others fit
  EXPECT_EQ(first.told.size(), 1u);
  EXPECT_TRUE(second.told.empty());
  EXPECT_EQ(all->counts().bytes, 400u);
}

TEST(UnreadReplies, WhatWasReadOrWhoseCallIsOverCountsNoMore) {
  const auto all = All(1000);
  for (int i = 0; i < 100; ++i) {
    Call call(all);
    call.unread.Add(900);
    call.unread.Remove(500);
    call.unread.Add(500);
    EXPECT_TRUE(call.told.empty());
  }
  EXPECT_EQ(all->counts().bytes, 0u);
  EXPECT_EQ(all->counts().calls, 0u);
}

TEST(UnreadReplies, OneCallTooManyIsRefused) {
  const auto all = All(1000, 2);
  auto first = std::make_unique<UnreadCall>(all);
  EXPECT_TRUE(all->Admit().ok());
  UnreadCall second(all);
  EXPECT_TRUE(all->Admit().ok());
  {
    UnreadCall third(all);
    const absl::Status refused = all->Admit();
    EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(refused.message()),
                AllOf(HasSubstr("2 calls are open"), HasSubstr("--max-open-calls")));
    EXPECT_EQ(all->counts().calls, 3u);
  }
  EXPECT_EQ(all->counts().refused, 1u);
  first = nullptr;
  UnreadCall fourth(all);
  EXPECT_TRUE(all->Admit().ok());
}

}  // namespace
}  // namespace tandem::orchestrator
