#include "orchestrator/openai/record_json.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/messages/record_json.h"

namespace tandem::orchestrator {
namespace {

using base::JsonObject;
using base::JsonText;

uint32_t RoundsWithoutDraft(const v1::AcceptanceRecord& record) {
  uint32_t rounds = 0;
  for (const v1::CausedRounds& caused : record.rounds_without_draft()) rounds += caused.rounds();
  return rounds;
}

JsonText Ratio(double part, double whole) {
  return whole > 0 ? JsonText(part / whole) : JsonText(nullptr);
}

JsonObject RecordJson(const v1::AcceptanceRecord& record) {
  JsonObject json({{"rule", RuleName(record.rule())},
                   {"exact", record.exact()},
                   {"rounds", record.rounds()},
                   {"draft_tokens", record.draft_tokens()},
                   {"accepted_tokens", record.accepted_tokens()},
                   {"accepted_histogram", JsonText::Array(record.accepted_histogram())},
                   {"rejected_rounds", record.rejected_rounds()},
                   {"rounds_without_draft", messages::CausesJson(record.rounds_without_draft())},
                   {"draft_reconnections", record.draft_reconnections()},
                   {"target_replays", record.target_replays()},
                   {"cached_tokens", record.cached_tokens()},
                   {"one_hot_blocks", record.one_hot_blocks()},
                   {"tree_rounds", record.tree_rounds()}});
  if (record.prepared_rounds_size() > 0) {
    json.Set("prepared_rounds", messages::CausesJson(record.prepared_rounds()));
  }
  if (record.has_length()) json.Set("length", messages::LengthJson(record.length()));
  if (record.drafters_size() > 0) json.Set("drafters", messages::DraftersJson(record));
  return json;
}

}  // namespace

std::string RuleName(v1::Rule rule) {
  const std::string name = v1::Rule_Name(rule);
  return absl::AsciiStrToLower(absl::StripPrefix(name, "RULE_"));
}

JsonObject UsageJson(const v1::Last& last) {
  const v1::Usage& usage = last.usage();
  const uint32_t cached = std::min(last.speculation().cached_tokens(), usage.prompt_tokens());
  return JsonObject({{"prompt_tokens", usage.prompt_tokens()},
                     {"completion_tokens", usage.completion_tokens()},
                     {"total_tokens", usage.prompt_tokens() + usage.completion_tokens()},
                     {"prompt_tokens_details", JsonObject({{"cached_tokens", cached}})},
                     {"speculation", RecordJson(last.speculation())}});
}

JsonObject MetricsJson(const v1::AcceptanceRecord& record, std::optional<uint32_t> draft_tokens) {
  const uint32_t plain = RoundsWithoutDraft(record);
  const uint32_t steps = record.rounds() - std::min(plain, record.rounds());
  std::vector<uint32_t> histogram(record.accepted_histogram().begin(),
                                  record.accepted_histogram().end());
  if (!histogram.empty()) histogram[0] -= std::min(plain, histogram[0]);
  JsonObject decoding;
  const double accepted = record.accepted_tokens();
  decoding.Set("mean_acceptance_length", Ratio(accepted + steps, steps));
  decoding.Set("draft_acceptance_rate", Ratio(accepted, record.draft_tokens()));
  decoding.Set("acceptance_histogram", JsonText::Array(histogram));
  decoding.Set("num_spec_steps", steps);
  decoding.Set("num_accepted_draft_tokens", record.accepted_tokens());
  decoding.Set("num_draft_tokens", record.draft_tokens());
  if (draft_tokens.has_value()) decoding.Set("num_spec_tokens", *draft_tokens);
  return JsonObject({{"speculative_decoding", decoding}});
}

JsonObject StartedJson(const v1::Started& started) {
  return JsonObject({{"request_id", started.request_id()},
                     {"seed", absl::StrCat(started.seed())},
                     {"rule", RuleName(started.rule())},
                     {"exact", started.exact()},
                     {"target_model_id", started.target_model_id()},
                     {"draft_model_id", started.draft_model_id()},
                     {"numerics_id", started.numerics_id()},
                     {"trace_id", started.trace_id()}});
}

JsonObject TimingJson(const v1::Timing& timing) {
  return JsonObject({{"total_us", timing.total_us()},
                     {"first_token_us", timing.first_token_us()},
                     {"admission_us", timing.admission_us()},
                     {"draft_us", timing.draft_us()},
                     {"verify_us", timing.verify_us()},
                     {"target_us", timing.target_us()}});
}

std::string Fingerprint(const std::string& model_id, const std::string& numerics_id) {
  return absl::StrCat(model_id, ":", numerics_id);
}

}  // namespace tandem::orchestrator
