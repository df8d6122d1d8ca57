#include "client/json_output.h"

#include <utility>

#include "client/resume.h"
#include "client/stages.h"
#include "nlohmann/json.hpp"

namespace tandem::client {
namespace {

using Json = nlohmann::ordered_json;

// A line must stay one line, and what is not UTF-8 must not end the program. What is not finite
// becomes null.
std::string Line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

double Milliseconds(uint64_t microseconds) { return static_cast<double>(microseconds) / 1000; }

// `all`: TopLogprobs, one a token.
template <typename Container>
Json TopJson(const Container& all) {
  Json json = Json::array();
  for (const v1::TopLogprobs& top : all) {
    Json tokens = Json::array();
    for (const v1::TokenLogprob& entry : top.tokens()) {
      tokens.push_back({{"token", entry.token()}, {"logprob", entry.logprob()}});
    }
    json.push_back(std::move(tokens));
  }
  return json;
}

Json PromptJson(const v1::PromptLogprobs& prompt) {
  Json json = {{"first_position", prompt.first_position()},
               {"token_ids", prompt.token_ids()},
               {"logprobs", prompt.logprobs()}};
  if (prompt.top_size() > 0) json["top_logprobs"] = TopJson(prompt.top());
  return json;
}

Json SpeculationJson(const v1::AcceptanceRecord& record, uint32_t completion_tokens) {
  Json causes = Json::object();
  for (const v1::CausedRounds& caused : record.rounds_without_draft()) {
    causes[caused.cause()] = caused.rounds();
  }
  v1::Last last;
  *last.mutable_speculation() = record;
  last.mutable_usage()->set_completion_tokens(completion_tokens);
  return {{"rule", RuleName(record.rule())},
          {"exact", record.exact()},
          {"rounds", record.rounds()},
          {"drafted", record.drafted()},
          {"accepted", record.accepted()},
          {"accepted_histogram", record.accepted_histogram()},
          {"rejected_rounds", record.rejected_rounds()},
          {"alpha_hat", AlphaHat(record)},
          {"tokens_per_target_pass", TokensPerPass(last)},
          {"rounds_without_draft", causes},
          {"draft_reconnections", record.draft_reconnections()},
          {"target_replays", record.target_replays()},
          {"one_hot_blocks", record.one_hot_blocks()},
          {"batch_rows", record.batch_rows()},
          {"batch_sequences", record.batch_sequences()},
          {"mean_batch", MeanBatch(record)}};
}

Json StagesJson(const v1::Stages& stages) {
  Json json = Json::object();
  for (Stage stage : kStages) json[Name(stage)] = Milliseconds(Microseconds(stages, stage));
  return json;
}

Json RoundJson(const v1::RoundRecord& round) {
  Json json = {{"sample_index", round.sample_index()},
               {"number", round.number()},
               {"began_ms", Milliseconds(round.began_us())},
               {"took_ms", Milliseconds(Microseconds(round))},
               {"stages_ms", StagesJson(round.stages())},
               {"drafted", round.drafted()},
               {"accepted", round.accepted()},
               {"tokens", round.tokens()},
               {"pass_id", round.pass_id()},
               {"pass_rows", round.pass_rows()},
               {"pass_sequences", round.pass_sequences()}};
  if (!round.cause().empty()) json["cause"] = round.cause();
  return json;
}

Json TimingJson(const v1::Last& last) {
  const v1::Timing& timing = last.timing();
  return {{"total", Milliseconds(timing.total_us())},
          {"first_token", Milliseconds(timing.first_token_us())},
          {"per_token", MillisecondsPerToken(last)},
          {"draft", Milliseconds(timing.draft_us())},
          {"verify", Milliseconds(timing.verify_us())},
          {"target", Milliseconds(timing.target_us())},
          {"own", Milliseconds(timing.own_us())},
          {"admission", Milliseconds(timing.admission_us())},
          {"queue", Milliseconds(timing.queue_us())},
          {"slot", Milliseconds(timing.slot_us())},
          {"stages", StagesJson(timing.stages())}};
}

void AddSample(const SampleOutput& sample, const v1::SampleEnd& end, Json& json) {
  json["text"] = sample.text;
  json["token_ids"] = sample.token_ids;
  if (!sample.logprobs.empty()) json["logprobs"] = sample.logprobs;
  if (!sample.top_logprobs.empty()) json["top_logprobs"] = TopJson(sample.top_logprobs);
  json["finish_reason"] = FinishReasonName(end.finish_reason());
  if (!end.stop_string().empty()) json["stop_string"] = end.stop_string();
}

Json SamplesJson(const Outcome& outcome) {
  Json samples = Json::array();
  for (size_t i = 0; i < outcome.samples.size(); ++i) {
    const v1::SampleEnd end = outcome.End(i);
    Json json = {{"sample_index", i}};
    AddSample(outcome.samples[i], end, json);
    json["completion_tokens"] = end.completion_tokens();
    json["speculation"] = SpeculationJson(end.speculation(), end.completion_tokens());
    samples.push_back(std::move(json));
  }
  return samples;
}

}  // namespace

std::string JsonDelta(const v1::Delta& delta) {
  Json json = {{"sample_index", delta.sample_index()},
               {"delta", delta.text()},
               {"token_ids", delta.token_ids()}};
  if (delta.logprobs_size() > 0) json["logprobs"] = delta.logprobs();
  if (delta.top_logprobs_size() > 0) json["top_logprobs"] = TopJson(delta.top_logprobs());
  return Line(json);
}

std::string JsonPromptLogprobs(const v1::PromptLogprobs& prompt) {
  return Line({{"prompt_logprobs", PromptJson(prompt)}});
}

std::string JsonFinal(const Outcome& outcome) {
  const v1::Last& last = outcome.last;
  Json json = {{"final", true}};
  AddSample(outcome.samples[0], outcome.End(0), json);
  if (outcome.prompt.token_ids_size() > 0) json["prompt_logprobs"] = PromptJson(outcome.prompt);
  if (outcome.samples.size() > 1) json["samples"] = SamplesJson(outcome);
  json["seed"] = outcome.started.seed();
  json["request_id"] = outcome.started.request_id();
  if (!outcome.started.trace_id().empty()) json["trace_id"] = outcome.started.trace_id();
  json["models"] = {{"target", outcome.started.target_model_id()},
                    {"draft", outcome.started.draft_model_id()},
                    {"numerics", outcome.started.numerics_id()}};
  json["usage"] = {{"prompt_tokens", last.usage().prompt_tokens()},
                   {"completion_tokens", last.usage().completion_tokens()}};
  json["speculation"] = SpeculationJson(last.speculation(), last.usage().completion_tokens());
  json["timing_ms"] = TimingJson(last);
  for (const v1::RoundRecord& round : outcome.rounds) json["rounds"].push_back(RoundJson(round));
  return Line(json);
}

std::string JsonInterrupted(const Outcome& outcome, const v1::GenerateRequest& request,
                            const absl::Status& status) {
  Json samples = Json::array();
  for (size_t i = 0; i < outcome.samples.size(); ++i) {
    samples.push_back({{"first_sample", request.first_sample() + i},
                       {"text", outcome.samples[i].text},
                       {"output_prefix_ids", PrefixIds(outcome, request, i)}});
  }
  Json json = {{"interrupted", true},
               {"error", status.ToString()},
               {"seed", outcome.started.seed()},
               {"rule", RuleName(outcome.started.rule())},
               {"samples", samples}};
  if (!outcome.started.trace_id().empty()) json["trace_id"] = outcome.started.trace_id();
  return Line(json);
}

}  // namespace tandem::client
