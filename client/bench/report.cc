#include "client/bench/report.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "client/bench/load_json.h"
#include "common/base/json.h"
#include "common/theory/speedup.h"

namespace tandem::client {
namespace {

using base::JsonObject;

std::string Row(absl::string_view name, const Spread& spread, const char* unit) {
  return absl::StrFormat("  %-34s %8.3f %8.3f %8.3f  %s\n", name, spread.min, spread.median,
                         spread.max, unit);
}

double DraftedRounds(const v1::AcceptanceRecord& record) {
  double rounds = record.rounds();
  for (const v1::CausedRounds& caused : record.rounds_without_draft()) rounds -= caused.rounds();
  return rounds;
}

// Sums over all requests, from which the rates of the whole follow.
struct RequestSums {
  double rounds = 0;
  double tokens = 0;
  double drafted_rounds = 0;
  v1::AcceptanceRecord record;  // drafted, accepted and rejected_rounds only

  void Add(const v1::Last& last) {
    const v1::AcceptanceRecord& more = last.speculation();
    rounds += more.rounds();
    tokens += last.usage().completion_tokens();
    drafted_rounds += DraftedRounds(more);
    record.set_draft_tokens(record.draft_tokens() + more.draft_tokens());
    record.set_accepted_tokens(record.accepted_tokens() + more.accepted_tokens());
    record.set_rejected_rounds(record.rejected_rounds() + more.rejected_rounds());
    record.set_tree_rounds(record.tree_rounds() + more.tree_rounds());
  }
};

// The times of a round of each request, in milliseconds. The first round, in which the target reads
// the prompt, is left out. What disturbs a few requests moves no median.
struct RoundTimes {
  std::vector<double> drafts;
  std::vector<double> rest;

  void Add(const v1::Last& last) {
    const v1::AcceptanceRecord& record = last.speculation();
    if (record.rounds() < 2) return;
    const auto draft_us = static_cast<double>(last.timing().draft_us());
    const double all_us = static_cast<double>(last.timing().total_us()) -
                          static_cast<double>(last.timing().first_token_us());
    const double drafted = DraftedRounds(record);
    if (drafted > 0) drafts.push_back(draft_us / drafted / 1000);
    rest.push_back(std::max(0.0, all_us - draft_us) / (record.rounds() - 1) / 1000);
  }
};

}  // namespace

BenchReport MakeReport(const std::vector<BenchPair>& pairs, const BenchMode& against) {
  BenchReport report;
  report.pairs = static_cast<int>(pairs.size());
  report.against = against;
  std::vector<double> reference, request, ratios;
  RequestSums request_sums;
  RoundTimes reference_times, request_times;
  for (const BenchPair& pair : pairs) {
    request_sums.Add(pair.request);
    reference_times.Add(pair.reference);
    request_times.Add(pair.request);
    const double a = MillisecondsPerToken(pair.reference);
    const double b = MillisecondsPerToken(pair.request);
    if (a == 0 || b == 0) continue;  // a text of one token has no time between tokens
    reference.push_back(a);
    request.push_back(b);
    ratios.push_back(a / b);
  }
  report.reference_per_token = SpreadOf(std::move(reference));
  report.request_per_token = SpreadOf(std::move(request));
  report.mean_ratio = MeanFactorOf(ratios);
  report.ratio = SpreadOf(std::move(ratios));
  report.tokens_per_pass = Ratio(request_sums.tokens, request_sums.rounds);
  report.alpha_hat = AlphaHat(request_sums.record);
  report.candidates = Ratio(request_sums.record.draft_tokens(), request_sums.drafted_rounds);
  report.draft_step = SpreadOf(std::move(request_times.drafts)).median;
  report.verify_step = SpreadOf(std::move(request_times.rest)).median;
  report.plain_step = SpreadOf(std::move(reference_times.rest)).median;
  if (request_sums.record.tree_rounds() > 0 || !against.off()) return report;
  report.expected_tokens = theory::ExpectedTokens(report.alpha_hat, report.candidates);
  report.predicted_ratio =
      Ratio(*report.expected_tokens * report.plain_step, report.draft_step + report.verify_step);
  return report;
}

std::string ReportTable(const BenchReport& report) {
  std::string text = absl::StrFormat("%d pairs of requests   %13s %8s %8s %8s\n", report.pairs, "",
                                     "min", "median", "max");
  const bool alone = report.against.off();
  text += Row(alone ? "time per token, plain decoding"
                    : absl::StrCat("time per token, ", report.against.Name()),
              report.reference_per_token, "ms");
  text += Row("time per token, with the draft", report.request_per_token, "ms");
  text += Row(alone ? "ratio (above 1 the draft pays)" : "ratio (above 1 the latter is faster)",
              report.ratio, "x");
  if (report.mean_ratio.has_value()) {
    absl::StrAppendFormat(&text, "  %-34s %8.3f, and its 95 %% interval %.3f to %.3f\n",
                          "mean of the ratios", report.mean_ratio->mean, report.mean_ratio->low,
                          report.mean_ratio->high);
  }
  absl::StrAppendFormat(&text,
                        "\n  tokens per target pass %.2f, alpha-hat %.3f, draft tokens per "
                        "round %.2f\n",
                        report.tokens_per_pass, report.alpha_hat, report.candidates);
  absl::StrAppendFormat(&text, "  medians of a round: draft %.3f ms, verify %.3f ms, %s %.3f ms\n",
                        report.draft_step, report.verify_step,
                        alone ? "plain" : report.against.Name(), report.plain_step);
  if (report.predicted_ratio.has_value()) {
    absl::StrAppendFormat(&text, "  predicted from these: %.2f tokens per round, ratio %.3f\n",
                          *report.expected_tokens, *report.predicted_ratio);
  } else if (alone) {
    text += "  no prediction: some blocks were trees, and the formula is for chains\n";
  }
  return text;
}

std::string ReportJson(const BenchReport& report) {
  JsonObject json = {{"pairs", report.pairs},
                     {"against", report.against.Name()},
                     {"reference_ms_per_token", ToJson(report.reference_per_token)},
                     {"request_ms_per_token", ToJson(report.request_per_token)},
                     {"ratio", ToJson(report.ratio)},
                     {"tokens_per_target_pass", report.tokens_per_pass},
                     {"alpha_hat", report.alpha_hat},
                     {"candidates_per_round", report.candidates},
                     {"step_ms", JsonObject{{"draft", report.draft_step},
                                            {"verify", report.verify_step},
                                            {"plain", report.plain_step}}}};
  if (report.mean_ratio.has_value()) json.Set("mean_ratio", ToJson(report.mean_ratio));
  if (report.predicted_ratio.has_value()) {
    json.Set("predicted_tokens_per_round", *report.expected_tokens);
    json.Set("predicted_ratio", *report.predicted_ratio);
  }
  return json.text();
}

}  // namespace tandem::client
