#include "tests/soak/expected_text.h"

#include <algorithm>

#include "absl/strings/match.h"

namespace tandem::testing {
namespace {

uint32_t Between(std::mt19937_64& random, uint32_t least, uint32_t most) {
  return static_cast<uint32_t>(least + random() % (uint64_t{most} - least + 1));
}

std::string Letters(std::mt19937_64& random, uint32_t least, uint32_t most) {
  std::string text(Between(random, least, most), 'a');
  for (char& letter : text) letter = static_cast<char>('a' + random() % kLetters);
  return text;
}

}  // namespace

v1::GenerateRequest MixedRequest(std::mt19937_64& random) {
  static const char* const kDrafters[] = {"", "model", "model", "prompt-lookup", "random"};
  v1::GenerateRequest request;
  for (uint32_t i = Between(random, 1, 60); i > 0; --i) {
    request.mutable_ids()->add_ids(Between(random, 0, kLetters - 1));
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
  return request;
}

ExpectedText GreedyText(const TableModel& target, const v1::GenerateRequest& request) {
  std::vector<uint32_t> context(request.ids().ids().begin(), request.ids().ids().end());
  const auto& ends = request.stop().token_ids();
  ExpectedText expected;
  while (expected.ids.size() < request.max_tokens()) {
    const std::vector<float> logits = target.LogitsAfter(context);
    const uint32_t token = static_cast<uint32_t>(std::max_element(logits.begin(), logits.end()) -
                                                 logits.begin());  // the first of equals
    context.push_back(token);
    expected.ids.push_back(token);
    if (std::find(ends.begin(), ends.end(), token) != ends.end()) {
      expected.finish = v1::FINISH_REASON_STOP;
      return expected;
    }
    expected.text.push_back(static_cast<char>('a' + token));
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
