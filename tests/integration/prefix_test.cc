// Requests of one cache_scope that begin alike: the same ids as without a scope, and the record
// tells what was not computed again.
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/integration/cluster.h"
#include "tests/integration/models.h"
#include "tests/integration/requests.h"

namespace tandem::testing {
namespace {

TEST(PrefixTest, ALaterTurnTakesWhatTheFirstOneComputed) {
  InProcessCluster cluster(DemoOptions());
  std::string words;
  while (words.size() < 2400) words += "The old captain looked at the sea and said nothing of it. ";
  std::vector<uint32_t> prompt = *cluster.tokenizer().Encode(words);
  ASSERT_GT(prompt.size(), 512u);
  prompt.resize(600);
  v1::GenerateRequest request = GreedyRequest(prompt, 40, 4);
  const Reply alone = Send(cluster.channel(), request);
  ASSERT_TRUE(alone.status.ok()) << alone.status;
  EXPECT_EQ(alone.record().cached_tokens(), 0u);

  request.set_cache_scope("chat");
  const Reply first = Send(cluster.channel(), request);
  EXPECT_EQ(first.ids, alone.ids);
  EXPECT_EQ(first.record().cached_tokens(), 0u);
  // The second turn: what was said, and more.
  std::vector<uint32_t> longer = prompt;
  longer.insert(longer.end(), first.ids.begin(), first.ids.end());
  v1::GenerateRequest turn = GreedyRequest(longer, 40, 4);
  const Reply expected = Send(cluster.channel(), turn);
  turn.set_cache_scope("chat");
  const Reply second = Send(cluster.channel(), turn);
  EXPECT_EQ(second.ids, expected.ids);
  EXPECT_EQ(second.record().cached_tokens(), 512u);
  turn.set_cache_scope("another chat");
  const Reply other = Send(cluster.channel(), turn);
  EXPECT_EQ(other.ids, expected.ids);
  EXPECT_EQ(other.record().cached_tokens(), 0u);
  EXPECT_TRUE(cluster.AllFreed());
}

}  // namespace
}  // namespace tandem::testing
