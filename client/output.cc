#include "client/output.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "nlohmann/json.hpp"

namespace tandem::client {
namespace {

using Json = nlohmann::ordered_json;

// RULE_GREEDY -> greedy.
std::string ShortName(absl::string_view name, absl::string_view prefix) {
  absl::ConsumePrefix(&name, prefix);
  return absl::StrReplaceAll(absl::AsciiStrToLower(name), {{"_", "-"}});
}

// A line must stay one line, and what is not UTF-8 must not end the program.
std::string Line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

double Milliseconds(uint64_t microseconds) { return static_cast<double>(microseconds) / 1000; }

Json SpeculationJson(const v1::AcceptanceRecord& record, const v1::Last& last) {
  Json causes = Json::object();
  for (const v1::CausedRounds& caused : record.rounds_without_draft()) {
    causes[caused.cause()] = caused.rounds();
  }
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
          {"slot", Milliseconds(timing.slot_us())}};
}

// "waited 12.0 ms to be admitted, 3.0 ms for the target's device"; empty when there was no wait to speak of.
std::string Waits(const v1::Timing& timing) {
  const std::pair<uint64_t, absl::string_view> waits[] = {
      {timing.admission_us(), "to be admitted"},
      {timing.slot_us(), "for a slot at the target"},
      {timing.queue_us(), "for the target's device"}};
  std::string text;
  for (const auto& [microseconds, what] : waits) {
    if (absl::Microseconds(microseconds) <= kTrivialWait) continue;
    absl::StrAppendFormat(&text, "%s%.1f ms %s", text.empty() ? "waited " : ", ",
                          Milliseconds(microseconds), what);
  }
  return text;
}

// One row for each number of candidates that were accepted in some round.
std::string Histogram(const v1::AcceptanceRecord& record) {
  constexpr uint32_t kWidth = 40;
  uint32_t largest = 1;
  for (uint32_t rounds : record.accepted_histogram()) largest = std::max(largest, rounds);
  std::string text;
  for (int k = 0; k < record.accepted_histogram_size(); ++k) {
    const uint32_t rounds = record.accepted_histogram(k);
    uint32_t bars = static_cast<uint32_t>(uint64_t{rounds} * kWidth / largest);
    if (rounds > 0) bars = std::max(bars, 1u);
    std::string bar;
    for (uint32_t i = 0; i < bars; ++i) bar += "█";
    absl::StrAppendFormat(&text, "  accepted %2d │%s %d\n", k, bar, rounds);
  }
  return text;
}

}  // namespace

double AlphaHat(const v1::AcceptanceRecord& record) {
  const double tested = static_cast<double>(record.accepted()) + record.rejected_rounds();
  return tested == 0 ? 0 : record.accepted() / tested;
}

double TokensPerPass(const v1::Last& last) {
  const uint32_t rounds = last.speculation().rounds();
  return rounds == 0 ? 0 : static_cast<double>(last.usage().completion_tokens()) / rounds;
}

double MeanBatch(const v1::AcceptanceRecord& record) {
  return record.rounds() == 0 ? 0 : static_cast<double>(record.batch_sequences()) / record.rounds();
}

double MillisecondsPerToken(const v1::Last& last) {
  const v1::Timing& timing = last.timing();
  if (last.usage().completion_tokens() < 2 || timing.total_us() < timing.first_token_us()) return 0;
  return Milliseconds(timing.total_us() - timing.first_token_us()) /
         (last.usage().completion_tokens() - 1);
}

std::string RuleName(v1::Rule rule) { return ShortName(v1::Rule_Name(rule), "RULE_"); }

std::string FinishReasonName(v1::FinishReason reason) {
  return ShortName(v1::FinishReason_Name(reason), "FINISH_REASON_");
}

std::string JsonDelta(const v1::Delta& delta) {
  return Line({{"delta", delta.text()}, {"token_ids", delta.token_ids()}});
}

std::string JsonFinal(const Outcome& outcome) {
  const v1::Last& last = outcome.last;
  Json json = {{"final", true},
               {"text", outcome.text},
               {"token_ids", outcome.token_ids},
               {"finish_reason", FinishReasonName(last.finish_reason())}};
  if (!last.stop_string().empty()) json["stop_string"] = last.stop_string();
  json["seed"] = outcome.started.seed();
  json["request_id"] = outcome.started.request_id();
  json["models"] = {{"target", outcome.started.target_model_id()},
                    {"draft", outcome.started.draft_model_id()},
                    {"numerics", outcome.started.numerics_id()}};
  json["usage"] = {{"prompt_tokens", last.usage().prompt_tokens()},
                   {"completion_tokens", last.usage().completion_tokens()}};
  json["speculation"] = SpeculationJson(last.speculation(), last);
  json["timing_ms"] = TimingJson(last);
  return Line(json);
}

std::string Summary(const Outcome& outcome) {
  const v1::Last& last = outcome.last;
  const v1::AcceptanceRecord& record = last.speculation();
  std::string text = absl::StrFormat(
      "%d tokens (%s) in %d rounds: %.2f tokens a target pass\n", last.usage().completion_tokens(),
      FinishReasonName(last.finish_reason()), record.rounds(), TokensPerPass(last));
  if (record.drafted() > 0) {
    absl::StrAppendFormat(&text, "  accepted %d of %d drafted; alpha-hat %.2f; rule %s, %s\n",
                          record.accepted(), record.drafted(), AlphaHat(record),
                          RuleName(record.rule()), record.exact() ? "exact" : "NOT exact");
    text += Histogram(record);
  }
  absl::StrAppendFormat(&text, "  first token after %.1f ms, then %.2f ms a token\n",
                        Milliseconds(last.timing().first_token_us()), MillisecondsPerToken(last));
  if (const std::string waits = Waits(last.timing()); !waits.empty()) {
    absl::StrAppend(&text, "  ", waits, "\n");
  }
  if (record.batch_sequences() > record.rounds()) {
    absl::StrAppendFormat(&text, "  %.1f sequences in a target pass, on average\n",
                          MeanBatch(record));
  }
  std::string causes;
  for (const v1::CausedRounds& caused : record.rounds_without_draft()) {
    absl::StrAppend(&causes, causes.empty() ? "" : ", ", caused.cause(), " ", caused.rounds());
  }
  if (!causes.empty()) absl::StrAppend(&text, "  rounds without a draft: ", causes, "\n");
  if (record.draft_reconnections() > 0 || record.target_replays() > 0) {
    absl::StrAppendFormat(&text, "  draft reconnections %d, target replays %d\n",
                          record.draft_reconnections(), record.target_replays());
  }
  if (record.one_hot_blocks() > 0) {
    absl::StrAppendFormat(&text, "  blocks whose q was refused: %d\n", record.one_hot_blocks());
  }
  return text;
}

}  // namespace tandem::client
