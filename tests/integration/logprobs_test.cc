// Log probabilities through the services are those of the model, computed here one token at a time:
// for accepted, recovered and bonus tokens under every rule, raw and after all options, and for the
// prompt.
#include <algorithm>
#include <cmath>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "common/sampling/token_history.h"
#include "gtest/gtest.h"
#include "tests/integration/alone.h"
#include "tests/integration/cluster.h"
#include "tests/integration/requests.h"

namespace tandem::testing::logprobs_test {
namespace {

constexpr uint32_t kTokens = 60;
constexpr uint32_t kTop = 5;
constexpr double kTolerance = 1e-4;

// log softmax of one row: of the model itself, at temperature 1.
std::vector<double> OfModel(const std::vector<float>& logits, uint32_t vocabulary_size) {
  const double largest = *std::max_element(logits.begin(), logits.begin() + vocabulary_size);
  double sum = 0;
  for (uint32_t id = 0; id < vocabulary_size; ++id) sum += std::exp(logits[id] - largest);
  std::vector<double> logprobs(vocabulary_size);
  for (uint32_t id = 0; id < vocabulary_size; ++id) {
    logprobs[id] = logits[id] - largest - std::log(sum);
  }
  return logprobs;
}

// After all options.
std::vector<double> OfOptions(const std::vector<float>& logits, const AloneOptions& options,
                              absl::Span<const uint32_t> context, size_t prompt_tokens) {
  sampling::TokenHistory history(static_cast<uint32_t>(prompt_tokens));
  history.Append(context);
  const sampling::Distribution p =
      sampling::MakeDistribution(logits, options.vocabulary_size, options.sampling, history);
  std::vector<double> logprobs(options.vocabulary_size, -INFINITY);
  for (size_t i = 0; i < p.ids.size(); ++i) logprobs[p.ids[i]] = std::log(p.probabilities[i]);
  return logprobs;
}

void ExpectRow(uint32_t token, float logprob, const v1::TopLogprobs& top,
               const std::vector<double>& right) {
  if (std::isinf(right[token])) {
    EXPECT_EQ(logprob, right[token]);
  } else {
    EXPECT_NEAR(logprob, right[token], kTolerance);
  }
  const size_t possible =
      std::count_if(right.begin(), right.end(), [](double value) { return value > -INFINITY; });
  ASSERT_EQ(static_cast<size_t>(top.tokens_size()), std::min<size_t>(kTop, possible));
  std::vector<double> sorted = right;
  std::sort(sorted.rbegin(), sorted.rend());
  for (int i = 0; i < top.tokens_size(); ++i) {
    const v1::TokenLogprob& entry = top.tokens(i);
    EXPECT_NEAR(entry.logprob(), right[entry.token()], kTolerance) << i;
    EXPECT_NEAR(entry.logprob(), sorted[i], kTolerance) << i;  // it belongs here
  }
}

struct Case {
  std::string name;
  v1::Rule rule;
  bool processed;
};
void PrintTo(const Case& test, std::ostream* out) { *out << test.name; }

class LogprobsTest : public ::testing::TestWithParam<Case> {
 protected:
  LogprobsTest() : cluster_(PatientDemoOptions()), model_(LoadModel(DemoTarget())) {
    prompt_ = *cluster_.tokenizer().Encode(
        "The old captain looked at the sea and said that the sea was old");
    options_.sampling.temperature = 0.9;
    options_.sampling.top_k = 40;
    options_.sampling.frequency_penalty = 0.4;
    options_.sampling.repetition_penalty = 1.1;
    options_.sampling.bias = {sampling::TokenBias{prompt_[0], 1}};
    options_.seed = 11;
    options_.max_tokens = kTokens;
    options_.vocabulary_size = cluster_.tokenizer().vocabulary_size();
  }

  v1::GenerateRequest Request(uint32_t draft_tokens) const {
    v1::GenerateRequest request = CoupledRequest(prompt_, options_, draft_tokens);
    request.mutable_speculation()->set_rule(GetParam().rule);
    request.mutable_logprobs()->set_top(kTop);
    request.mutable_logprobs()->set_processed(GetParam().processed);
    request.mutable_logprobs()->set_prompt(true);
    return request;
  }

  // Of the token at `position` of the text, given those before it.
  std::vector<double> Right(const std::vector<std::vector<float>>& rows,
                            absl::Span<const uint32_t> text, size_t position) const {
    if (!GetParam().processed) return OfModel(rows[position - 1], options_.vocabulary_size);
    return OfOptions(rows[position - 1], options_, text.first(position), prompt_.size());
  }

  void ExpectRight(const Reply& reply) {
    ASSERT_TRUE(reply.status.ok()) << reply.status;
    ASSERT_EQ(reply.samples.size(), 1u);
    const SampleReply& sample = reply.samples[0];
    ASSERT_EQ(sample.ids.size(), kTokens);
    ASSERT_EQ(sample.logprobs.size(), kTokens);
    ASSERT_EQ(sample.top_logprobs.size(), kTokens);
    std::vector<uint32_t> text = prompt_;
    text.insert(text.end(), sample.ids.begin(), sample.ids.end());
    const std::vector<std::vector<float>> rows = RowsAlone(*model_, text);
    for (size_t i = 0; i < kTokens; ++i) {
      SCOPED_TRACE(i);
      ExpectRow(sample.ids[i], sample.logprobs[i], sample.top_logprobs[i],
                Right(rows, text, prompt_.size() + i));
    }
    ASSERT_EQ(reply.prompt.ids, std::vector<uint32_t>(prompt_.begin() + 1, prompt_.end()));
    ASSERT_EQ(reply.prompt.top.size(), reply.prompt.ids.size());
    for (size_t i = 0; i < reply.prompt.ids.size(); ++i) {
      SCOPED_TRACE(i);
      ExpectRow(reply.prompt.ids[i], reply.prompt.logprobs[i], reply.prompt.top[i],
                Right(rows, text, i + 1));
    }
  }

  InProcessCluster cluster_;
  std::unique_ptr<model::LanguageModel> model_;
  std::vector<uint32_t> prompt_;
  AloneOptions options_;
};

TEST_P(LogprobsTest, AreTheModelsOwn) {
  const Reply plain = Send(cluster_.channel(), Request(0));
  ExpectRight(plain);
  const Reply drafted = Send(cluster_.channel(), Request(4));
  ExpectRight(drafted);
  // accepted, recovered and bonus tokens were among them.
  EXPECT_GT(drafted.record().accepted_tokens(), 5u) << drafted.record().DebugString();
  EXPECT_GT(drafted.record().rejected_rounds(), 2u) << drafted.record().DebugString();
  ASSERT_GT(drafted.record().accepted_histogram_size(), 4) << drafted.record().DebugString();
  EXPECT_GT(drafted.record().accepted_histogram(4), 0u) << drafted.record().DebugString();
  if (GetParam().rule != v1::RULE_COUPLED) return;
  // The same text, so the same numbers.
  EXPECT_EQ(plain.ids, drafted.ids);
  for (size_t i = 0; i < kTokens; ++i) {
    EXPECT_NEAR(plain.samples[0].logprobs[i], drafted.samples[0].logprobs[i], kTolerance);
  }
}

INSTANTIATE_TEST_SUITE_P(Rules, LogprobsTest,
                         ::testing::Values(Case{"Speculative", v1::RULE_SPECULATIVE, false},
                                           Case{"SpeculativeP", v1::RULE_SPECULATIVE, true},
                                           Case{"Block", v1::RULE_BLOCK, false},
                                           Case{"BlockP", v1::RULE_BLOCK, true},
                                           Case{"Coupled", v1::RULE_COUPLED, false},
                                           Case{"CoupledP", v1::RULE_COUPLED, true}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tandem::testing::logprobs_test
