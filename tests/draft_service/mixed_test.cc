#include "draft_service/mixed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/draft_service/ngram_drafters.h"

namespace tandem::draft_service::mixed_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

DrafterFactory Factory() {
  return MixedFactory({}, std::make_shared<FixedTable>(std::map<uint32_t, std::vector<Successor>>{
                              {1, {{8, 2}, {2, 1}}}, {2, {{6, 1}}}, {8, {{9, 1}}}}));
}

TEST(Mixed, TheTextFirstThenTheTable) {
  EXPECT_THAT(ProposeAfter(Factory(), {}, 4), IsEmpty());
  EXPECT_THAT(ProposeAfter(Factory(), {7}, 4), IsEmpty()) << "neither knows it";
  EXPECT_THAT(ProposeAfter(Factory(), {1}, 4), ElementsAre(8, 9)) << "the table alone";
  EXPECT_THAT(ProposeAfter(Factory(), {1, 3, 7, 1}, 2), ElementsAre(3, 7)) << "the text alone";
  EXPECT_THAT(ProposeAfter(Factory(), {1, 3, 1}, 4), ElementsAre(3, 1, 8, 9))
      << "the text, and the table after it";
}

TEST(Mixed, RollsBack) {
  auto drafter = Make(Factory());
  ASSERT_TRUE(drafter->Accept(0, {2, 4, 2}).ok());
  EXPECT_THAT(drafter->Propose(2)->tokens, ElementsAre(4, 2));
  ASSERT_TRUE(drafter->Accept(1, {}).ok());
  EXPECT_THAT(drafter->Propose(2)->tokens, ElementsAre(6));
}

// What the text says is one-hot, and what the table says has its q.
TEST(Mixed, DrawsFromTheTableAlone) {
  speculation::SequenceSettings settings;
  settings.rule = acceptance::Rule::kSpeculative;
  auto drafter = *Factory().make(settings, Proposal::kDefault);
  ASSERT_TRUE(drafter->Accept(0, {1, 3, 1}).ok());
  const CandidateTree block = *drafter->Propose(3);
  ASSERT_EQ(block.size(), 3u);
  ASSERT_EQ(block.q.size(), 3u);
  EXPECT_THAT(block.q[0].ids, IsEmpty());
  EXPECT_THAT(block.q[1].ids, IsEmpty());
  EXPECT_THAT(block.q[2].ids, ElementsAre(8, 2));
  EXPECT_THAT(drafter->Propose(2)->q, IsEmpty());
}

}  // namespace
}  // namespace tandem::draft_service::mixed_test
