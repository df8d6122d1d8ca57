#include "tests/integration/alone.h"

#include <algorithm>
#include <memory>

#include "common/base/check.h"
#include "common/messages/sampling_options.h"
#include "common/sampling/distribution.h"
#include "common/sampling/token_history.h"

namespace tandem::testing {
namespace {

class Reader {
 public:
  Reader(model::LanguageModel& model, size_t max_length) : model_(model) {
    auto cache = model.NewCache(static_cast<int>(max_length));
    TANDEM_CHECK_OK(cache);
    cache_ = *std::move(cache);
  }

  // Valid until the next one.
  absl::Span<const float> Read(uint32_t token) {
    model::ForwardPart part{cache_.get(), {&token, 1}, 0};
    auto logits = model_.Forward({&part, 1});
    TANDEM_CHECK_OK(logits);
    return logits->row(0);
  }

 private:
  model::LanguageModel& model_;
  std::unique_ptr<model::Cache> cache_;
};

}  // namespace

std::vector<uint32_t> PlainAlone(model::LanguageModel& model, absl::Span<const uint32_t> prompt,
                                 const AloneOptions& options) {
  Reader reader(model, prompt.size() + options.max_tokens);
  const std::vector<uint32_t>& ends = options.sampling.stop_token_ids;
  sampling::TokenHistory history(static_cast<uint32_t>(prompt.size()));
  history.Append(prompt);
  for (uint32_t token : prompt.first(prompt.size() - 1)) reader.Read(token);
  uint32_t last = prompt.back();
  while (history.output_tokens() < options.max_tokens) {
    const sampling::Distribution p = sampling::MakeDistribution(
        reader.Read(last), options.vocabulary_size, options.sampling, history);
    last = sampling::DrawRace(p, options.seed, options.sample_index,
                              static_cast<uint32_t>(history.size()));
    history.Append(last);
    if (std::find(ends.begin(), ends.end(), last) != ends.end()) break;
  }
  const auto output = history.tokens().subspan(prompt.size());
  return {output.begin(), output.end()};
}

std::vector<std::vector<float>> RowsAlone(model::LanguageModel& model,
                                          absl::Span<const uint32_t> tokens) {
  Reader reader(model, tokens.size());
  std::vector<std::vector<float>> rows;
  for (uint32_t token : tokens) {
    const absl::Span<const float> row = reader.Read(token);
    rows.emplace_back(row.begin(), row.end());
  }
  return rows;
}

v1::GenerateRequest CoupledRequest(absl::Span<const uint32_t> prompt, const AloneOptions& options,
                                   uint32_t draft_tokens) {
  v1::GenerateRequest request;
  request.mutable_ids()->mutable_ids()->Add(prompt.begin(), prompt.end());
  *request.mutable_sampling() = messages::ToWire(options.sampling);
  for (uint32_t token : options.sampling.stop_token_ids)
    request.mutable_stop()->add_token_ids(token);
  request.mutable_stop()->set_ignore_eos(true);  // what ends is said above
  request.set_seed(options.seed);
  request.set_first_sample(options.sample_index);
  request.set_max_tokens(options.max_tokens);
  request.mutable_speculation()->set_rule(v1::RULE_COUPLED);
  request.mutable_speculation()->set_fixed(draft_tokens);
  return request;
}

}  // namespace tandem::testing
