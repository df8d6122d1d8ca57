// What the tests of the drafters without a model share: they propose what followed in the text.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "draft_service/drafters/drafter.h"
#include "draft_service/ngrams/successor_table.h"

namespace tandem::draft_service {

inline std::unique_ptr<Drafter> Make(const DrafterFactory& factory) {
  auto drafter = factory.make({}, Proposal::kDefault);
  TANDEM_CHECK_OK(drafter);
  return *std::move(drafter);
}

// The chain that a new drafter proposes after this text. It has no q: nothing was drawn.
inline std::vector<uint32_t> ProposeAfter(const DrafterFactory& factory,
                                          const std::vector<uint32_t>& text, uint32_t max) {
  auto drafter = Make(factory);
  TANDEM_CHECK_OK(drafter->Accept(0, text));
  auto block = drafter->Propose(max);
  TANDEM_CHECK_OK(block);
  EXPECT_THAT(block->q, ::testing::IsEmpty());
  EXPECT_THAT(block->parents, ::testing::IsEmpty());
  return block->tokens;
}

// One drafter through 60 random appends and roll-backs proposes what `search` finds in the text by
// itself, without an index.
inline void ExpectItsIndexEquals(
    const std::function<std::vector<uint32_t>(const std::vector<uint32_t>& text, uint32_t max)>&
        search,
    const DrafterFactory& factory, std::mt19937& random) {
  auto drafter = Make(factory);
  std::vector<uint32_t> text;
  for (int round = 0; round < 60; ++round) {
    const uint32_t keep =
        static_cast<uint32_t>(random() % 3 == 0 ? random() % (text.size() + 1) : text.size());
    std::vector<uint32_t> tokens(random() % 6);
    for (uint32_t& token : tokens) token = static_cast<uint32_t>(random() % 4);
    text.resize(keep);
    text.insert(text.end(), tokens.begin(), tokens.end());
    ASSERT_TRUE(drafter->Accept(keep, tokens).ok());
    const uint32_t max = 1 + static_cast<uint32_t>(random() % 6);
    ASSERT_EQ(drafter->Propose(max)->tokens, search(text, max));
  }
}

// A table that a test writes down.
class FixedTable final : public SuccessorTable {
 public:
  using Continuations = std::map<std::pair<uint32_t, size_t>, std::vector<uint32_t>>;

  explicit FixedTable(std::map<uint32_t, std::vector<Successor>> successors,
                      Continuations continuations = {})
      : successors_(std::move(successors)), continuations_(std::move(continuations)) {}

  absl::Span<const Successor> After(uint32_t token) const override {
    const auto it = successors_.find(token);
    return it == successors_.end() ? absl::Span<const Successor>() : it->second;
  }
  absl::Span<const uint32_t> Continuation(uint32_t token, size_t rank) const override {
    const auto it = continuations_.find({token, rank});
    return it == continuations_.end() ? absl::Span<const uint32_t>() : it->second;
  }

 private:
  const std::map<uint32_t, std::vector<Successor>> successors_;
  const Continuations continuations_;
};

}  // namespace tandem::draft_service
