// A text ends where it should when its end lies inside an accepted block, and what penalties count
// of a block is right whatever the block's length: through the services, against what the target
// writes alone.
#include <algorithm>
#include <array>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/integration/alone.h"
#include "tests/integration/cluster.h"
#include "tests/integration/requests.h"

namespace tandem::testing::ends_test {
namespace {

constexpr uint32_t kTokens = 48;

struct Case {
  std::string name;
  double temperature;
};
void PrintTo(const Case& test, std::ostream* out) { *out << test.name; }

class EndsTest : public ::testing::TestWithParam<Case> {
 protected:
  EndsTest() : cluster_(PatientDemoOptions()), model_(LoadModel(DemoTarget())) {
    prompt_ = *cluster_.tokenizer().Encode("Once upon a time");
    options_.sampling.temperature = GetParam().temperature;
    options_.seed = 3;
    options_.max_tokens = kTokens;
    options_.vocabulary_size = cluster_.tokenizer().vocabulary_size();
    whole_ = PlainAlone(*model_, prompt_, options_);
  }

  v1::GenerateRequest Request(uint32_t draft_tokens) const {
    v1::GenerateRequest request = CoupledRequest(prompt_, options_, draft_tokens);
    request.mutable_logprobs()->set_top(2);
    return request;
  }

  std::vector<uint32_t> Whole(size_t tokens) const {
    return {whole_.begin(), whole_.begin() + static_cast<std::ptrdiff_t>(tokens)};
  }

  // Nothing of what was accepted past the end is returned or counted.
  void ExpectEnd(const Reply& reply, size_t tokens, v1::FinishReason reason) const {
    ASSERT_TRUE(reply.status.ok()) << reply.status;
    EXPECT_EQ(reply.ids, Whole(tokens));
    EXPECT_EQ(reply.last.usage().completion_tokens(), tokens);
    EXPECT_EQ(reply.last.usage().prompt_tokens(), prompt_.size());
    EXPECT_EQ(reply.last.finish_reason(), reason);
    ASSERT_EQ(reply.samples.size(), 1u);
    EXPECT_EQ(reply.samples[0].logprobs.size(), tokens);
    EXPECT_EQ(reply.samples[0].top_logprobs.size(), tokens);
  }

  // Each round commits what it accepted and one more: more than was returned when the text ended
  // inside a block.
  static bool EndedInsideABlock(const Reply& reply) {
    return reply.record().accepted_tokens() + reply.record().rounds() > reply.ids.size();
  }

  InProcessCluster cluster_;
  std::unique_ptr<model::LanguageModel> model_;
  std::vector<uint32_t> prompt_;
  AloneOptions options_;
  std::vector<uint32_t> whole_;  // what the target writes alone
};

TEST_P(EndsTest, AtAnEndToken) {
  int inside = 0;
  for (size_t at = 1; at < whole_.size(); ++at) {
    const auto end = whole_.begin() + static_cast<std::ptrdiff_t>(at);
    if (std::find(whole_.begin(), end, *end) != end) continue;  // it came sooner
    SCOPED_TRACE(at);
    v1::GenerateRequest request = Request(6);
    request.mutable_stop()->add_token_ids(*end);
    const Reply reply = Send(cluster_.channel(), request);
    ExpectEnd(reply, at + 1, v1::FINISH_REASON_STOP);
    EXPECT_EQ(reply.text, *cluster_.tokenizer().Decode(Whole(at)));  // it has no text itself
    inside += EndedInsideABlock(reply) ? 1 : 0;
  }
  EXPECT_GE(inside, 2);
}

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

TEST_P(EndsTest, AtTheMostTokens) {
  int drafted = 0;
  for (uint32_t max = 1; max <= 20; ++max) {
    SCOPED_TRACE(max);
    v1::GenerateRequest request = Request(6);
    request.set_max_tokens(max);
    const Reply reply = Send(cluster_.channel(), request);
    ExpectEnd(reply, max, v1::FINISH_REASON_LENGTH);
    drafted += reply.record().accepted_tokens() > 0 ? 1 : 0;
  }
  EXPECT_GT(drafted, 5);
}

TEST_P(EndsTest, AtAStopStringToTheCharacter) {
  const Reply whole = Send(cluster_.channel(), Request(0));
  ASSERT_TRUE(whole.status.ok()) << whole.status;
  ASSERT_EQ(whole.ids, whole_);
  ASSERT_GT(whole.text.size(), 60u);
  int inside = 0;
  for (size_t at = 5; at + 4 < whole.text.size() && at < 120; at += 5) {
    const std::string stop = whole.text.substr(at, 4);  // most begin and end inside a token
    const size_t first = whole.text.find(stop);
    SCOPED_TRACE(stop);
    std::vector<Reply> replies;
    for (uint32_t draft_tokens : {0, 6}) {
      v1::GenerateRequest request = Request(draft_tokens);
      request.mutable_stop()->add_strings(stop);
      replies.push_back(Send(cluster_.channel(), request));
      const Reply& reply = replies.back();
      ASSERT_TRUE(reply.status.ok()) << reply.status;
      EXPECT_EQ(reply.text, whole.text.substr(0, first));
      EXPECT_EQ(reply.last.stop_string(), stop);
      ExpectEnd(reply, reply.ids.size(), v1::FINISH_REASON_STOP);
    }
    EXPECT_EQ(replies[0].ids, replies[1].ids);
    EXPECT_EQ(replies[0].samples[0].logprobs, replies[1].samples[0].logprobs);
    inside += EndedInsideABlock(replies[1]) ? 1 : 0;
  }
  EXPECT_GT(inside, 2);
}

TEST_P(EndsTest, PenaltiesCountWhatIsInTheBlock) {
  std::vector<std::vector<uint32_t>> texts;
  for (const auto& [repetition, presence, frequency] :
       {std::array<double, 3>{1, 2, 0}, {1, 0, 2}, {1.8, 0, 0}, {1, -2, -1}, {1.3, 1, 1}}) {
    options_.sampling.repetition_penalty = repetition;
    options_.sampling.presence_penalty = presence;
    options_.sampling.frequency_penalty = frequency;
    const std::vector<uint32_t> expected = PlainAlone(*model_, prompt_, options_);
    uint32_t accepted = 0;
    for (uint32_t draft_tokens : {0, 4, 8}) {
      const Reply reply = Send(cluster_.channel(), Request(draft_tokens));
      ASSERT_TRUE(reply.status.ok()) << reply.status;
      EXPECT_EQ(reply.ids, expected) << draft_tokens << " candidates, penalties " << repetition
                                     << ", " << presence << ", " << frequency;
      accepted += reply.record().accepted_tokens();
    }
    EXPECT_GT(accepted, 5u);
    texts.push_back(expected);
  }
  for (const std::vector<uint32_t>& text : texts) EXPECT_NE(text, whole_);  // they matter
}

INSTANTIATE_TEST_SUITE_P(Rules, EndsTest,
                         ::testing::Values(Case{"Greedy", 0}, Case{"Coupled", 0.7}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tandem::testing::ends_test
