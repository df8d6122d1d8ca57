// Tokens that end a text, of the model's files and of the tokenizer's, through the services. Where
// a text ends inside an accepted block: tests/orchestrator/loop.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/integration/cluster.h"
#include "tests/integration/requests.h"

namespace tandem::testing::ends_test {
namespace {

// The model's files name another one, which still ends a text.
TEST(EosTest, TheTokenizersOwnEndsTheTextToo) {
  ScratchFolder folder;
  WriteTinyLlama(folder.path(), /*vocabulary_size=*/8, /*seed=*/1);
  const auto reply = [&] {
    ClusterOptions options;
    options.target_model = LoadModel(folder.path());
    options.tokenizer = LoadTokenizer(folder.path());
    InProcessCluster cluster(std::move(options));
    v1::GenerateRequest request = GreedyRequest({1, 2}, /*max_tokens=*/20, /*draft_tokens=*/2);
    request.mutable_sampling()->set_temperature(1);
    request.set_seed(7);
    return Send(cluster.channel(), request);
  };
  const Reply whole = reply();
  ASSERT_TRUE(whole.status.ok()) << whole.status;
  ASSERT_EQ(whole.ids.size(), 20u);
  // The last two tokens to come for the first time.
  std::vector<uint32_t> firsts;
  for (const uint32_t id : whole.ids) {
    if (std::find(firsts.begin(), firsts.end(), id) == firsts.end()) firsts.push_back(id);
  }
  ASSERT_GE(firsts.size(), 3u);
  const auto length = [&](uint32_t id) {
    return std::find(whole.ids.begin(), whole.ids.end(), id) - whole.ids.begin() + 1;
  };
  const uint32_t sooner = firsts[firsts.size() - 2], later = firsts.back();
  for (const auto& [tokenizers, models] : {std::pair(sooner, later), std::pair(later, sooner)}) {
    const std::string letter(1, static_cast<char>('a' + tokenizers));
    WriteFile(folder.path() + "/tokenizer_config.json", "{\"eos_token\": \"" + letter + "\"}");
    WriteFile(folder.path() + "/generation_config.json",
              "{\"eos_token_id\": " + std::to_string(models) + "}");
    const Reply ended = reply();
    ASSERT_TRUE(ended.status.ok()) << ended.status;
    EXPECT_EQ(ended.ids.size(), static_cast<size_t>(length(sooner)));
    EXPECT_EQ(ended.ids.back(), sooner);
    EXPECT_EQ(ended.last.finish_reason(), v1::FINISH_REASON_STOP);
  }
}

}  // namespace
}  // namespace tandem::testing::ends_test
