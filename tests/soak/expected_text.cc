#include "tests/soak/expected_text.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "common/base/check.h"
#include "common/messages/sampling_options.h"
#include "common/sampling/distribution.h"
#include "common/sampling/token_history.h"

namespace tandem::testing {
namespace {

uint32_t Between(std::mt19937_64& random, uint32_t min, uint32_t max) {
  return static_cast<uint32_t>(min + random() % (uint64_t{max} - min + 1));
}

std::string Letters(std::mt19937_64& random, uint32_t min, uint32_t max) {
  std::string text(Between(random, min, max), 'a');
  for (char& letter : text) letter = static_cast<char>('a' + random() % kLetters);
  return text;
}

std::vector<uint32_t> IdsOf(const std::string& letters) {
  std::vector<uint32_t> ids;
  ids.reserve(letters.size());
  for (char letter : letters) ids.push_back(static_cast<uint32_t>(letter - 'a'));
  return ids;
}

// What is done to the logits before the temperature; most requests have little of it.
void MixOptions(std::mt19937_64& random, v1::GenerateRequest& request) {
  v1::SamplingOptions& sampling = *request.mutable_sampling();
  if (random() % 6 == 0) sampling.set_min_p(0.05f);
  if (random() % 6 == 0) sampling.set_presence_penalty(0.5f);
  if (random() % 6 == 0) sampling.set_frequency_penalty(0.25f);
  if (random() % 6 == 0) sampling.set_repetition_penalty(1.25f);
  if (random() % 6 == 0) sampling.add_banned_token_ids(Between(random, 0, kLetters - 1));
  if (random() % 6 == 0) {
    v1::LogitBias& bias = *sampling.add_logit_bias();
    bias.set_token(Between(random, 0, kLetters - 1));
    bias.set_bias(1.5f);
  }
  if (random() % 4 == 0) {
    sampling.set_min_tokens(Between(random, 1, std::min(20u, request.max_tokens())));
  }
  if (random() % 6 == 0) request.mutable_logprobs()->set_top(Between(random, 0, 5));
}

}  // namespace

v1::GenerateRequest MixedRequest(std::mt19937_64& random) {
  static const char* const kDrafters[] = {"", "model", "model", "prompt-lookup", "random"};
  static constexpr v1::Rule kRules[] = {v1::RULE_UNSPECIFIED, v1::RULE_COUPLED,
                                        v1::RULE_SPECULATIVE, v1::RULE_BLOCK};
  v1::GenerateRequest request;
  // Nearly every prompt is a new one. Half of them come as text: what the tokenizer keeps of texts
  // would grow.
  const std::string prompt = Letters(random, 1, 60);
  if (random() % 2 == 0) {
    request.set_text(prompt);
  } else {
    for (uint32_t id : IdsOf(prompt)) request.mutable_ids()->add_ids(id);
  }
  request.set_max_tokens(Between(random, 1, 150));
  request.set_seed(random());
  v1::SamplingOptions& sampling = *request.mutable_sampling();
  sampling.set_temperature(random() % 5 < 3 ? 0.0f : 0.8f);
  if (random() % 4 == 0) sampling.set_top_k(Between(random, 1, kLetters));
  if (random() % 4 == 0) sampling.set_top_p(0.9f);
  if (random() % 4 == 0) {
    for (uint32_t i = Between(random, 1, 3); i > 0; --i) {
      request.mutable_stop()->add_strings(Letters(random, 2, 4));
    }
  }
  if (random() % 6 == 0) request.mutable_stop()->add_token_ids(Between(random, 0, kLetters - 1));
  if (random() % 3 == 0) {
    request.mutable_speculation()->set_auto_(true);
  } else {
    request.mutable_speculation()->set_fixed(Between(random, 0, 8));
  }
  request.mutable_speculation()->set_drafter(kDrafters[random() % std::size(kDrafters)]);
  request.mutable_speculation()->set_rule(kRules[random() % std::size(kRules)]);
  MixOptions(random, request);
  return request;
}

bool IsPlain(const v1::GenerateRequest& request) {
  TANDEM_CHECK(request.has_seed());
  const v1::Rule rule = request.speculation().rule();
  return request.sampling().temperature() == 0 || rule == v1::RULE_UNSPECIFIED ||
         rule == v1::RULE_COUPLED;
}

ExpectedText PlainText(const TableModel& target, const v1::GenerateRequest& request) {
  const std::vector<uint32_t> context =
      request.has_text()
          ? IdsOf(request.text())
          : std::vector<uint32_t>(request.ids().ids().begin(), request.ids().ids().end());
  const auto& ends = request.stop().token_ids();
  sampling::SamplingParameters sampling = messages::FromWire(request.sampling());
  sampling.stop_token_ids.assign(ends.begin(), ends.end());
  sampling::TokenHistory history(static_cast<uint32_t>(context.size()));
  history.Append(context);
  ExpectedText expected;
  while (expected.ids.size() < request.max_tokens()) {
    const sampling::Distribution p = sampling::MakeDistribution(
        target.LogitsAfter(history.tokens()), kLetters, sampling, history);
    const uint32_t token =
        sampling::DrawRace(p, request.seed(), 0, static_cast<uint32_t>(history.size()));
    history.Append(token);
    expected.ids.push_back(token);
    if (std::find(ends.begin(), ends.end(), token) != ends.end()) {
      expected.finish = v1::FINISH_REASON_STOP;
      return expected;
    }
    expected.text.push_back(static_cast<char>('a' + token));
    if (expected.ids.size() <= sampling.min_tokens) continue;
    size_t matched = 0;  // bytes of the longest stop string that ends here
    for (const std::string& stop : request.stop().strings()) {
      if (absl::EndsWith(expected.text, stop)) matched = std::max(matched, stop.size());
    }
    if (matched > 0) {
      expected.text.resize(expected.text.size() - matched);
      expected.finish = v1::FINISH_REASON_STOP;
      return expected;
    }
  }
  return expected;
}

}  // namespace tandem::testing
