#include "client/theory/report.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "common/base/json.h"
#include "common/theory/speedup.h"

namespace tandem::client {
namespace {

constexpr int kMaxPrepared = 16;  // draft tokens and outcomes that services take

using base::JsonObject;
using base::JsonText;

constexpr std::pair<double, int> kTable1[] = {{0.6, 2}, {0.7, 3}, {0.8, 2},
                                              {0.8, 5}, {0.9, 2}, {0.9, 10}};

TheoryRow MakeRow(double alpha, int gamma, const TheoryOptions& options) {
  return {alpha,
          gamma,
          theory::ExpectedTokens(alpha, gamma),
          theory::Speedup(alpha, gamma, options.c.value_or(0)),
          theory::OperationsFactor(alpha, gamma, options.c_hat.value_or(0)),
          theory::ReadsSaved(alpha, gamma, options.draft_reads.value_or(0))};
}

TheoryBest MakeBest(double alpha, double c, int max_gamma) {
  TheoryBest best;
  best.alpha = alpha;
  best.gamma = theory::OptimalGamma(alpha, c, max_gamma);
  best.speed = theory::Speedup(alpha, best.gamma, c);
  if (theory::CanSpeedUp(alpha, c)) best.min = theory::MinBestSpeedup(alpha, c);
  best.bound = theory::SpeedupBound(alpha);
  best.oracle = theory::OracleSpeedup(alpha, c);
  return best;
}

// The gammas asked for, and the best one among them in its place.
std::vector<TheoryRound> MakeRounds(double alpha, std::vector<uint32_t> gammas,
                                    const theory::RoundTimes& times, int best) {
  gammas.push_back(static_cast<uint32_t>(best));
  std::sort(gammas.begin(), gammas.end());
  gammas.erase(std::unique(gammas.begin(), gammas.end()), gammas.end());
  std::vector<TheoryRound> rounds;
  for (uint32_t gamma : gammas) {
    const int draft_tokens = static_cast<int>(gamma);
    const double tokens = theory::ExpectedTokens(alpha, draft_tokens);
    rounds.push_back({alpha, draft_tokens, tokens, theory::RoundMicroseconds(times, draft_tokens),
                      theory::RoundSpeedup(times, draft_tokens, tokens), draft_tokens == best});
  }
  return rounds;
}

// A pass that takes the same for all rows that are asked for.
theory::PassTime Flat(double time) {
  return *theory::PassTime::Create({{1, time}, {kMaxGamma + 1, time}});
}

// Of the paper's formulas: a target pass takes 1, and a draft token c of it.
theory::RoundTimes TimesOf(const TheoryOptions& options) {
  if (!options.timed()) return {Flat(1), options.c.value_or(0), 0};
  theory::PassTime verify = Flat(options.target_us.value_or(1));
  if (!options.cost_curve.empty()) {
    absl::StatusOr<theory::PassTime> curve = theory::PassTime::Create(options.cost_curve);
    TANDEM_CHECK_OK(curve) << "the options are validated";
    verify = *std::move(curve);
  }
  return {std::move(verify), options.draft_us.value_or(0), options.round_trip_us.value_or(0),
          options.target_round_trip_us.value_or(0)};
}

std::string Milliseconds(double us) { return absl::StrFormat("%.4g ms", us / 1000); }

std::string PreparedText(absl::string_view what, const theory::PreparedRounds& rounds) {
  return absl::StrFormat("  %s for %d outcomes: best K %d, %.2fx\n", what, rounds.outcomes,
                         rounds.draft_tokens, rounds.speed);
}

JsonObject PreparedJson(const theory::PreparedRounds& rounds) {
  return JsonObject{{"draft_tokens", rounds.draft_tokens},
                    {"outcomes", rounds.outcomes},
                    {"speed", rounds.speed}};
}

std::string VerdictsText(const TheoryReport& report) {
  const TheoryOptions& options = report.options;
  std::string text;
  for (const TheoryVerdict& verdict : report.verdicts) {
    absl::StrAppendFormat(&text, "alpha %.4g: best K %d%s, %.2fx; ", verdict.alpha,
                          verdict.draft_tokens, verdict.draft_tokens == 0 ? " (no draft)" : "",
                          verdict.speed);
    if (!verdict.break_even.has_value()) {
      text += "no draft pays, however fast\n";
    } else if (options.timed()) {
      absl::StrAppend(&text, "break-even draft time ", Milliseconds(*verdict.break_even),
                      "/token\n");
    } else {
      absl::StrAppendFormat(&text, "break-even c %.4g\n", *verdict.break_even);
    }
    if (!options.timed()) continue;
    text += PreparedText("with blocks prepared", verdict.prepared);
    if (options.target_round_trip_us.has_value()) {
      text += PreparedText("with a target that goes on by itself,", verdict.chained);
    }
  }
  if (report.verdicts.empty()) return text;
  if (options.timed()) {
    const theory::RoundTimes times = TimesOf(options);
    absl::StrAppend(&text, "  target pass  ", Milliseconds(times.verify(1)), " for 1 row, ",
                    Milliseconds(times.verify(5)), " for 5 rows",
                    options.target_round_trip_us.has_value()
                        ? absl::StrCat(", round trip ", Milliseconds(times.target_round_trip_us))
                        : "",
                    "\n  draft        ", Milliseconds(times.draft_us), "/token",
                    options.draft_us.has_value() ? "" : " (not given: --draft-ms)", ", round trip ",
                    Milliseconds(times.round_trip_us), "\n");
  } else if (!options.c.has_value()) {
    text += "for a draft that takes no time: give --c, or times (--target-ms, --draft-ms)\n";
  }
  return text;
}

std::string LevelsText(const TheoryReport& report) {
  const TheoryOptions& options = report.options;
  std::string text = absl::StrFormat(
      "%s\n\n"
      "  tokens      per round: (1 - a^(g+1)) / (1 - a)\n"
      "  speed       plain decoding as 1 (theorem 3.8, c = %g)\n"
      "  operations  plain decoding as 1 (theorem 3.11, c-hat = %g)\n"
      "  reads       times fewer bytes per token (section 3.4; a draft step reads %g of\n"
      "              what a target pass does)\n\n"
      "   alpha  gamma    tokens     speed  operations     reads\n",
      report.table1 ? "Leviathan et al. 2023 (arXiv 2211.17192), table 1"
                    : "Leviathan et al. 2023 (arXiv 2211.17192), section 3",
      options.c.value_or(0), options.c_hat.value_or(0), options.draft_reads.value_or(0));
  for (const TheoryRow& row : report.rows) {
    absl::StrAppendFormat(&text, "  %6.4g %6d %9.2f %8.2fx %10.2fx %8.2fx\n", row.alpha, row.gamma,
                          row.tokens, row.speed, row.operations, row.reads_saved);
  }
  return text;
}

std::string BestsText(const TheoryReport& report) {
  std::string text = absl::StrFormat(
      "\n"
      "  best g   the gamma up to %d with the largest speed; 0 = no draft\n"
      "  at least what the best one wins if alpha > c: (1+a)/(1+c) (corollary 3.9)\n"
      "  bound    of a draft of no cost: 1/(1-a) (section 3.6)\n"
      "  oracle   that knows how many will be accepted: 1/(1-a(1-c)); and its gain\n\n"
      "   alpha  best g     speed  at least     bound    oracle    gain\n",
      report.options.max_gamma);
  for (const TheoryBest& best : report.bests) {
    absl::StrAppendFormat(&text, "  %6.4g %7d %8.2fx %9s %8.2fx %8.2fx %+6.0f%%\n", best.alpha,
                          best.gamma, best.speed,
                          best.min.has_value() ? absl::StrFormat("%.2fx", *best.min) : "-",
                          best.bound, best.oracle, 100 * (best.oracle / best.speed - 1));
  }
  return text;
}

std::string RoundsText(const TheoryReport& report) {
  std::string text = absl::StrFormat(
      "\n"
      "  round us  K draft tokens + round trips + a target pass of K + 1 rows; K = 0:\n"
      "            no draft, 1 row; beyond the curve's end its last time per row\n"
      "  speed     tokens / round us x round us of K = 0; * = the best K up to %d\n\n"
      "   alpha      K    tokens      round us     speed\n",
      report.options.max_gamma);
  for (const TheoryRound& round : report.rounds) {
    absl::StrAppendFormat(&text, "  %6.4g %6d %9.2f %13.1f %8.2fx%s\n", round.alpha,
                          round.draft_tokens, round.tokens, round.microseconds, round.speed,
                          round.best ? " *" : "");
  }
  return text;
}

}  // namespace

TheoryReport MakeTheoryReport(const TheoryOptions& options) {
  TheoryReport report;
  report.options = options;
  const bool timed = options.timed();
  report.table1 = !timed && options.alphas.empty() && options.gammas.empty();
  std::vector<double>& alphas = report.options.alphas;
  std::vector<uint32_t>& gammas = report.options.gammas;
  const bool asked = timed || !alphas.empty() || options.c.has_value();
  if (alphas.empty()) alphas = {0.6, 0.7, 0.8, 0.9};
  if (gammas.empty()) gammas = {1, 2, 3, 4, 5, 8};
  const int max_gamma = static_cast<int>(options.max_gamma);
  const theory::RoundTimes times = TimesOf(options);
  for (double alpha : alphas) {
    const int best = theory::OptimalCandidates(times, alpha, max_gamma);
    if (asked) {
      report.verdicts.push_back(
          {alpha,
           best,
           theory::RoundSpeedup(times, best, theory::ExpectedTokens(alpha, best)),
           theory::BreakEvenDraftMicroseconds(times, alpha, max_gamma),
           {}});
    }
    if (timed) {
      const auto prepared = [&](bool chained) {
        return theory::OptimalPrepared(times, options.draft_row.value_or(theory::kUsualRow),
                                       chained, alpha, std::min(max_gamma, kMaxPrepared),
                                       kMaxPrepared);
      };
      report.verdicts.back().prepared = prepared(false);
      report.verdicts.back().chained = prepared(true);
    }
    if (timed) {
      for (const TheoryRound& round : MakeRounds(alpha, gammas, times, best)) {
        report.rounds.push_back(round);
      }
      continue;
    }
    report.bests.push_back(MakeBest(alpha, options.c.value_or(0), max_gamma));
    if (report.table1) continue;
    for (uint32_t gamma : gammas) {
      report.rows.push_back(MakeRow(alpha, static_cast<int>(gamma), options));
    }
  }
  if (report.table1) {
    for (const auto& [alpha, gamma] : kTable1)
      report.rows.push_back(MakeRow(alpha, gamma, options));
  }
  return report;
}

std::string TheoryTables(const TheoryReport& report) {
  const std::string verdicts = VerdictsText(report);
  if (report.options.timed()) return absl::StrCat(verdicts, RoundsText(report));
  return absl::StrCat(verdicts, verdicts.empty() ? "" : "\n", LevelsText(report),
                      BestsText(report));
}

std::string TheoryJson(const TheoryReport& report) {
  const TheoryOptions& options = report.options;
  const bool timed = options.timed();
  std::vector<JsonText> verdicts, rows, bests, rounds;
  for (const TheoryVerdict& verdict : report.verdicts) {
    JsonObject json{{"alpha", verdict.alpha},
                    {"draft_tokens", verdict.draft_tokens},
                    {"speed", verdict.speed},
                    {timed ? "break_even_draft_us" : "break_even_c", verdict.break_even}};
    if (timed) {
      json.Set("prepared", PreparedJson(verdict.prepared));
      json.Set("chained", PreparedJson(verdict.chained));
    }
    verdicts.push_back(std::move(json));
  }
  JsonObject json{{"verdicts", verdicts}, {"max_gamma", options.max_gamma}};
  if (timed) {
    const theory::RoundTimes times = TimesOf(options);
    for (const TheoryRound& round : report.rounds) {
      rounds.push_back(JsonObject{{"alpha", round.alpha},
                                  {"draft_tokens", round.draft_tokens},
                                  {"tokens", round.tokens},
                                  {"round_us", round.microseconds},
                                  {"speed", round.speed},
                                  {"best", round.best}});
    }
    json.Set("target_us", times.verify(1));
    json.Set("draft_us", times.draft_us);
    json.Set("rtt_us", times.round_trip_us);
    json.Set("target_rtt_us", times.target_round_trip_us);
    json.Set("rounds", rounds);
    return json.text();
  }
  for (const TheoryRow& row : report.rows) {
    rows.push_back(JsonObject{{"alpha", row.alpha},
                              {"gamma", row.gamma},
                              {"tokens", row.tokens},
                              {"speed", row.speed},
                              {"operations", row.operations},
                              {"reads_saved", row.reads_saved}});
  }
  for (const TheoryBest& best : report.bests) {
    bests.push_back(JsonObject{{"alpha", best.alpha},
                               {"gamma", best.gamma},
                               {"speed", best.speed},
                               {"at_least", best.min},
                               {"bound", best.bound},
                               {"oracle", best.oracle},
                               {"oracle_gain", best.oracle / best.speed}});
  }
  json.Set("c", options.c.value_or(0));
  json.Set("c_hat", options.c_hat.value_or(0));
  json.Set("draft_reads", options.draft_reads.value_or(0));
  json.Set("rows", rows);
  json.Set("best", bests);
  return json.text();
}

}  // namespace tandem::client
