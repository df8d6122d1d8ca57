// A client that opens more sequences than it has use for does not keep others from theirs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/draft_service/harness.h"

namespace tandem::draft_service::fair_sequences_test {
namespace {

using ::testing::HasSubstr;

const std::vector<uint32_t> kPrompt = {1, 2, 3, 4, 5};
constexpr uint32_t kSequences = 16;

Options FewSequences() {
  Options options;
  options.max_sequences = kSequences;
  return options;
}

// How many of sequences 1 to `count` of the stream draft a block.
int Drafting(Harness& draft, Harness::Stream& stream, uint64_t count, uint64_t round) {
  int drafting = 0;
  for (uint64_t sequence = 1; sequence <= count; ++sequence) {
    const internal::v1::Block block = draft.Ask(stream, MakeAdvance(sequence, round, kPrompt, 0));
    if (block.status() == internal::v1::STATUS_OK) ++drafting;
  }
  return drafting;
}

TEST(FairSequences, OneClientsTenThousandOpensLeaveAnotherItsShare) {
  Harness draft(FewSequences());
  auto greedy = draft.Connect("greedy");
  for (uint64_t sequence = 1; sequence <= 10'000; ++sequence) {
    greedy.Send(MakeOpen(sequence, {}));
    if (sequence % 100 == 0) draft.RunAll();
  }
  EXPECT_EQ(draft.executor->active_sequences(), kSequences);
  auto other = draft.Connect("other");
  for (uint64_t sequence = 1; sequence <= kSequences; ++sequence) {
    other.Send(MakeOpen(sequence, kPrompt));
  }
  EXPECT_EQ(Drafting(draft, other, kSequences, 1), kSequences / 2);
  // What it lost it is told, and it may not take it back.
  const internal::v1::Block block = draft.Ask(greedy, MakeAdvance(1, 1, kPrompt, 0));
  EXPECT_EQ(block.status(), internal::v1::STATUS_NO_SLOT);
  EXPECT_GT(block.problem().retry_after_us(), 0u);
  EXPECT_THAT(block.problem().message(), HasSubstr("fair share"));
  for (uint64_t sequence = 1; sequence <= 100; ++sequence) {
    greedy.Send(MakeOpen(sequence, {}));
  }
  EXPECT_EQ(Drafting(draft, other, kSequences / 2, 2), kSequences / 2);
}

TEST(FairSequences, WhoIsAloneHasThemAll) {
  Harness draft(FewSequences());
  auto one = draft.Connect("one");
  auto same = draft.Connect("one");  // another stream of the same client
  for (uint64_t sequence = 1; sequence <= kSequences; ++sequence) {
    one.Send(MakeOpen(sequence, kPrompt));
  }
  same.Send(MakeOpen(1, kPrompt));
  EXPECT_EQ(Drafting(draft, same, 1, 1), 0);
  EXPECT_EQ(Drafting(draft, one, kSequences, 1), static_cast<int>(kSequences));
}

TEST(FairSequences, WhatDraftsIsNotEnded) {
  Harness draft(FewSequences());
  auto greedy = draft.Connect("greedy");
  for (uint64_t sequence = 1; sequence <= kSequences; ++sequence) {
    greedy.Send(MakeOpen(sequence, kPrompt));
    greedy.Send(MakeAdvance(sequence, 1, kPrompt, 0));
  }
  auto other = draft.Connect("other");
  other.Send(MakeOpen(1, kPrompt));  // all others are at work
  draft.RunAll();
  const std::vector<internal::v1::Block> blocks = greedy.sink->Take();
  EXPECT_EQ(blocks.size(), kSequences);
  for (const internal::v1::Block& block : blocks)
    EXPECT_EQ(block.status(), internal::v1::STATUS_OK);
}

TEST(FairSequences, RefusalsThatAreRememberedAreBounded) {
  Harness draft(FewSequences());
  auto greedy = draft.Connect("greedy");
  for (uint64_t sequence = 1; sequence <= 20'000; ++sequence) {
    greedy.Send(MakeOpen(sequence, {}));
    if (sequence % 1000 == 0) draft.RunAll();
  }
  // Beyond those that are remembered it is told that they are not open.
  EXPECT_EQ(draft.Ask(greedy, MakeAdvance(20'000, 1, kPrompt, 0)).problem().field(), "sequence");
  auto other = draft.Connect("other");
  other.Send(MakeOpen(1, kPrompt));
  EXPECT_EQ(Drafting(draft, other, 1, 1), 1);
}

}  // namespace
}  // namespace tandem::draft_service::fair_sequences_test
