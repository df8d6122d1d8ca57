#include "client/generate/json_output.h"

#include <string>
#include <vector>

#include "client/common/token_text.h"
#include "client/generate/resume.h"
#include "client/generate/stages.h"
#include "common/base/json.h"
#include "common/messages/record_json.h"

namespace tandem::client {
namespace {

using base::JsonObject;
using base::JsonText;

// Of the objects that end an output (docs/usage.md, "Output for programs").
constexpr int kVersion = 1;

// Readers of JSON lose digits of a number above 2^53.
JsonText SeedJson(uint64_t seed) {
  constexpr uint64_t kExact = uint64_t{1} << 53;
  return seed > kExact ? JsonText(std::to_string(seed)) : JsonText(seed);
}

// `all`: TopLogprobs, one per token.
template <typename Container>
JsonText TopJson(const Container& all) {
  std::vector<JsonText> json;
  for (const v1::TopLogprobs& top : all) {
    std::vector<JsonText> tokens;
    for (const v1::TokenLogprob& entry : top.tokens()) {
      JsonObject token = {{"token", entry.token()}, {"logprob", entry.logprob()}};
      if (!entry.token_bytes().empty()) {
        token.Set("text", entry.token_bytes());
        token.Set("bytes", BytesJson(entry.token_bytes()));
      }
      tokens.emplace_back(token);
    }
    json.emplace_back(tokens);
  }
  return json;
}

// What the tokens stand for. `all`: bytes, of each token.
template <typename Container>
void AddTexts(const Container& all, JsonObject& json) {
  if (all.empty()) return;
  std::vector<JsonText> bytes;
  bytes.reserve(static_cast<size_t>(all.size()));
  for (const std::string& token : all) bytes.push_back(BytesJson(token));
  json.Set("token_texts", JsonText::Array(all));
  json.Set("token_bytes", bytes);
}

JsonObject PromptJson(const v1::PromptLogprobs& prompt) {
  JsonObject json = {{"first_position", prompt.first_position()},
                     {"token_ids", JsonText::Array(prompt.token_ids())},
                     {"logprobs", JsonText::Array(prompt.logprobs())}};
  if (prompt.top_size() > 0) json.Set("top_logprobs", TopJson(prompt.top()));
  AddTexts(prompt.token_bytes(), json);
  return json;
}

JsonObject SpeculationJson(const v1::AcceptanceRecord& record, uint32_t completion_tokens) {
  v1::Last last;
  *last.mutable_speculation() = record;
  last.mutable_usage()->set_completion_tokens(completion_tokens);
  JsonObject json = {{"rule", RuleName(record.rule())},
                     {"exact", record.exact()},
                     {"rounds", record.rounds()},
                     {"draft_tokens", record.draft_tokens()},
                     {"accepted_tokens", record.accepted_tokens()},
                     {"accepted_histogram", JsonText::Array(record.accepted_histogram())},
                     {"rejected_rounds", record.rejected_rounds()},
                     {"alpha_hat", AlphaHat(record)},
                     {"tokens_per_target_pass", TokensPerPass(last)},
                     {"rounds_without_draft", messages::CausesJson(record.rounds_without_draft())},
                     {"draft_reconnections", record.draft_reconnections()},
                     {"target_replays", record.target_replays()},
                     {"one_hot_blocks", record.one_hot_blocks()},
                     {"tree_rounds", record.tree_rounds()},
                     {"cached_tokens", record.cached_tokens()},
                     {"batch_rows", record.batch_rows()},
                     {"batch_sequences", record.batch_sequences()},
                     {"mean_batch", MeanBatch(record)}};
  if (record.prepared_rounds_size() > 0) {
    json.Set("prepared_rounds", messages::CausesJson(record.prepared_rounds()));
  }
  if (record.has_length()) json.Set("length", messages::LengthJson(record.length()));
  if (record.drafters_size() > 0) json.Set("drafters", messages::DraftersJson(record));
  return json;
}

JsonObject StagesJson(const v1::Stages& stages) {
  JsonObject json;
  for (Stage stage : kStages) json.Set(Name(stage), Milliseconds(Microseconds(stages, stage)));
  return json;
}

JsonObject RoundJson(const v1::RoundRecord& round) {
  JsonObject json = {{"sample_index", round.sample_index()},
                     {"number", round.number()},
                     {"began_ms", Milliseconds(round.began_us())},
                     {"took_ms", Milliseconds(Microseconds(round))},
                     {"stages_ms", StagesJson(round.stages())},
                     {"draft_tokens", round.draft_tokens()},
                     {"accepted_tokens", round.accepted_tokens()},
                     {"tokens", round.tokens()},
                     {"pass_id", round.pass_id()},
                     {"pass_rows", round.pass_rows()},
                     {"pass_sequences", round.pass_sequences()}};
  if (!round.cause().empty()) json.Set("cause", round.cause());
  if (!round.prepared().empty()) json.Set("prepared", round.prepared());
  if (round.has_chosen_draft_tokens()) {
    json.Set("chosen_draft_tokens", round.chosen_draft_tokens());
    if (round.chosen_draft_nodes() > 0) json.Set("chosen_draft_nodes", round.chosen_draft_nodes());
  }
  if (!round.zero_cause().empty()) json.Set("zero_cause", round.zero_cause());
  if (!round.drafter().empty()) {
    json.Set("drafter", round.drafter());
    json.Set("drafter_reason", round.drafter_reason());
  }
  if (round.draft_depth() > 0 && round.draft_depth() < round.draft_tokens()) {  // a tree
    json.Set("draft_depth", round.draft_depth());
    json.Set("node", round.node());
  }
  return json;
}

JsonObject TimingJson(const v1::Last& last) {
  const v1::Timing& timing = last.timing();
  return {{"total", Milliseconds(timing.total_us())},
          {"first_token", Milliseconds(timing.first_token_us())},
          {"per_token", MillisecondsPerToken(last)},
          {"draft", Milliseconds(timing.draft_us())},
          {"verify", Milliseconds(timing.verify_us())},
          {"target", Milliseconds(timing.target_us())},
          {"cpu", Milliseconds(timing.cpu_us())},
          {"admission", Milliseconds(timing.admission_us())},
          {"queue", Milliseconds(timing.queue_us())},
          {"slot", Milliseconds(timing.slot_us())},
          {"stages", StagesJson(timing.stages())}};
}

void AddSample(const SampleOutput& sample, const v1::SampleEnd& end, JsonObject& json) {
  json.Set("text", sample.text);
  json.Set("token_ids", JsonText::Array(sample.token_ids));
  if (!sample.logprobs.empty()) json.Set("logprobs", JsonText::Array(sample.logprobs));
  if (!sample.top_logprobs.empty()) json.Set("top_logprobs", TopJson(sample.top_logprobs));
  AddTexts(sample.token_bytes, json);
  json.Set("finish_reason", FinishReasonName(end.finish_reason()));
  if (!end.stop_string().empty()) json.Set("stop_string", end.stop_string());
}

JsonText SamplesJson(const Outcome& outcome) {
  std::vector<JsonText> samples;
  for (size_t i = 0; i < outcome.samples.size(); ++i) {
    const v1::SampleEnd end = outcome.End(i);
    JsonObject json = {{"sample_index", i}};
    AddSample(outcome.samples[i], end, json);
    json.Set("completion_tokens", end.completion_tokens());
    json.Set("speculation", SpeculationJson(end.speculation(), end.completion_tokens()));
    samples.emplace_back(json);
  }
  return samples;
}

}  // namespace

std::string JsonDelta(const v1::Delta& delta) {
  JsonObject json = {{"sample_index", delta.sample_index()},
                     {"delta", delta.text()},
                     {"token_ids", JsonText::Array(delta.token_ids())}};
  if (delta.logprobs_size() > 0) json.Set("logprobs", JsonText::Array(delta.logprobs()));
  if (delta.top_logprobs_size() > 0) json.Set("top_logprobs", TopJson(delta.top_logprobs()));
  AddTexts(delta.token_bytes(), json);
  return json.text();
}

std::string JsonPromptLogprobs(const v1::PromptLogprobs& prompt) {
  return JsonObject{{"prompt_logprobs", PromptJson(prompt)}}.text();
}

std::string JsonFinal(const Outcome& outcome) {
  const v1::Last& last = outcome.last;
  JsonObject json = {{"version", kVersion}, {"final", true}};
  AddSample(outcome.samples[0], outcome.End(0), json);
  if (outcome.prompt.token_ids_size() > 0) json.Set("prompt_logprobs", PromptJson(outcome.prompt));
  if (outcome.samples.size() > 1) json.Set("samples", SamplesJson(outcome));
  json.Set("seed", SeedJson(outcome.started.seed()));
  json.Set("request_id", outcome.started.request_id());
  if (!outcome.started.trace_id().empty()) json.Set("trace_id", outcome.started.trace_id());
  json.Set("models", JsonObject{{"target", outcome.started.target_model_id()},
                                {"draft", outcome.started.draft_model_id()},
                                {"numerics", outcome.started.numerics_id()}});
  json.Set("usage", JsonObject{{"prompt_tokens", last.usage().prompt_tokens()},
                               {"completion_tokens", last.usage().completion_tokens()}});
  json.Set("speculation", SpeculationJson(last.speculation(), last.usage().completion_tokens()));
  json.Set("timing_ms", TimingJson(last));
  std::vector<JsonText> rounds;
  for (const v1::RoundRecord& round : outcome.rounds) rounds.emplace_back(RoundJson(round));
  if (!rounds.empty()) json.Set("rounds", rounds);
  return json.text();
}

std::string JsonInterrupted(const Outcome& outcome, const v1::GenerateRequest& request,
                            const absl::Status& status) {
  std::vector<JsonText> samples;
  for (size_t i = 0; i < outcome.samples.size(); ++i) {
    samples.push_back(
        JsonObject{{"first_sample", request.first_sample() + i},
                   {"text", outcome.samples[i].text},
                   {"output_prefix_ids", JsonText::Array(PrefixIds(outcome, request, i))}});
  }
  JsonObject json = {{"version", kVersion},
                     {"interrupted", true},
                     {"code", absl::StatusCodeToString(status.code())},
                     {"error", status.ToString()},
                     {"seed", SeedJson(outcome.started.seed())},
                     {"rule", RuleName(outcome.started.rule())},
                     {"samples", samples}};
  if (!outcome.started.trace_id().empty()) json.Set("trace_id", outcome.started.trace_id());
  return json.text();
}

std::string JsonRefused(const absl::Status& status) {
  return JsonObject{{"version", kVersion},
                    {"refused", true},
                    {"code", absl::StatusCodeToString(status.code())},
                    {"error", std::string(status.message())}}
      .text();
}

}  // namespace tandem::client
