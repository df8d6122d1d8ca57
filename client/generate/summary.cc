#include "client/generate/summary.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/generate/stages.h"

namespace tandem::client {
namespace {

// "waited 12.0 ms to be admitted, 3.0 ms for the target's device". Empty if the waits are trivial.
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

// One row for each number of draft tokens that were accepted in some round.
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

// "30 tokens (stop)", "30 tokens in 3 samples (length 1, stop 2)".
std::string Amount(const Outcome& outcome) {
  const v1::Last& last = outcome.last;
  const uint32_t tokens = last.usage().completion_tokens();
  if (outcome.samples.size() == 1) {
    return absl::StrCat(tokens, " tokens (", FinishReasonName(last.finish_reason()), ")");
  }
  std::map<std::string, int> reasons;
  for (size_t i = 0; i < outcome.samples.size(); ++i) {
    ++reasons[FinishReasonName(outcome.End(i).finish_reason())];
  }
  std::string text;
  for (const auto& [reason, count] : reasons) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", reason, " ", count);
  }
  return absl::StrCat(tokens, " tokens in ", outcome.samples.size(), " samples (", text, ")");
}

// "rule coupled, exact; seed 7": what another run needs to get the same text.
std::string RuleAndSeed(const Outcome& outcome) {
  const v1::AcceptanceRecord& record = outcome.last.speculation();
  std::string text =
      absl::StrCat("rule ", RuleName(record.rule()), record.exact() ? ", exact" : ", NOT exact");
  if (record.rule() != v1::RULE_GREEDY) {
    absl::StrAppend(&text, "; seed ", outcome.started.seed());
  }
  return text;
}

// "a round took 24.1 ms: network 61 %, device 22 %, own 17 %": the longest first, none below half a
// percent. Empty when nobody has measured it.
std::string RoundTime(const v1::Last& last) {
  const v1::Stages& stages = last.timing().stages();
  const double total = static_cast<double>(TotalMicroseconds(stages));
  if (total == 0 || last.speculation().rounds() == 0) return "";
  std::vector<Stage> order(std::begin(kStages), std::end(kStages));
  std::stable_sort(order.begin(), order.end(), [&stages](Stage a, Stage b) {
    return Microseconds(stages, a) > Microseconds(stages, b);
  });
  std::string text =
      absl::StrFormat("a round took %.1f ms", total / last.speculation().rounds() / 1000);
  absl::string_view comma = ":";
  for (Stage stage : order) {
    const double share = static_cast<double>(Microseconds(stages, stage)) / total;
    if (share < 0.005) break;
    absl::StrAppendFormat(&text, "%s %s %.0f %%", comma, Name(stage), 100 * share);
    comma = ",";
  }
  return text;
}

// "  what: cause 3, other 1\n". Empty if there are none.
std::string CausesLine(absl::string_view what,
                       const google::protobuf::RepeatedPtrField<v1::CausedRounds>& all) {
  std::string text;
  for (const v1::CausedRounds& caused : all) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", caused.cause(), " ", caused.rounds());
  }
  return text.empty() ? "" : absl::StrCat("  ", what, ": ", text, "\n");
}

}  // namespace

std::string TraceLine(const Outcome& outcome) {
  const std::string& id = outcome.started.trace_id();
  return id.empty() ? "" : absl::StrCat("  trace ", id, "\n");
}

std::string Summary(const Outcome& outcome) {
  const v1::Last& last = outcome.last;
  const v1::AcceptanceRecord& record = last.speculation();
  std::string text = absl::StrFormat("%s in %d rounds: %.2f tokens per target pass\n",
                                     Amount(outcome), record.rounds(), TokensPerPass(last));
  if (record.draft_tokens() > 0) {
    const std::string trees =
        record.tree_rounds() == 0 ? "" : absl::StrCat(", in ", record.tree_rounds(), " trees");
    absl::StrAppendFormat(&text, "  accepted %d of %d drafted%s; alpha-hat %.2f; %s\n",
                          record.accepted_tokens(), record.draft_tokens(), trees, AlphaHat(record),
                          RuleAndSeed(outcome));
    text += Histogram(record);
  } else {
    absl::StrAppend(&text, "  nothing was drafted; ", RuleAndSeed(outcome), "\n");
  }
  absl::StrAppendFormat(&text, "  first token after %.1f ms, then %.2f ms per token\n",
                        Milliseconds(last.timing().first_token_us()), MillisecondsPerToken(last));
  if (const std::string time = RoundTime(last); !time.empty()) {
    absl::StrAppend(&text, "  ", time, "\n");
  }
  if (const std::string waits = Waits(last.timing()); !waits.empty()) {
    absl::StrAppend(&text, "  ", waits, "\n");
  }
  if (record.batch_sequences() > record.rounds()) {
    absl::StrAppendFormat(&text, "  %.1f sequences per target pass, on average\n",
                          MeanBatch(record));
  }
  absl::StrAppend(&text, CausesLine("rounds without a draft", record.rounds_without_draft()),
                  CausesLine("prepared blocks", record.prepared_rounds()));
  if (record.draft_reconnections() > 0 || record.target_replays() > 0) {
    absl::StrAppendFormat(&text, "  draft reconnections %d, target replays %d\n",
                          record.draft_reconnections(), record.target_replays());
  }
  if (record.cached_tokens() > 0) {
    absl::StrAppendFormat(&text, "  prompt tokens that were not computed again: %d\n",
                          record.cached_tokens());
  }
  if (record.one_hot_blocks() > 0) {
    absl::StrAppendFormat(&text, "  blocks whose q was refused: %d\n", record.one_hot_blocks());
  }
  return text + TraceLine(outcome);
}

std::string SamplesText(const Outcome& outcome, uint64_t first_sample, bool complete) {
  std::string text;
  for (size_t i = 0; i < outcome.samples.size(); ++i) {
    const SampleOutput& sample = outcome.samples[i];
    const v1::SampleEnd end = outcome.End(i);
    absl::StrAppend(&text, i > 0 ? "\n" : "", "=== sample ", first_sample + i, ", ",
                    sample.token_ids.size(), " tokens, ",
                    complete ? FinishReasonName(end.finish_reason()) : "unfinished", " ===\n",
                    sample.text, "\n");
  }
  return text;
}

}  // namespace tandem::client
