#include "client/bench/load_report.h"

#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace tandem::client {
namespace {

constexpr int kColumn = 22;

std::optional<double> RatioOf(uint64_t a, uint64_t b) {
  if (a == 0 || b == 0) return std::nullopt;
  return static_cast<double>(a) / static_cast<double>(b);
}

// Sums over all requests, of which the means follow.
struct Sums {
  uint64_t rounds = 0, tokens = 0, accepted_tokens = 0, batch_rows = 0, batch_sequences = 0;
  uint64_t draft_us = 0, verify_us = 0, target_us = 0, cpu_us = 0;
  uint64_t admission_us = 0, queue_us = 0, slot_us = 0;

  void Add(const v1::Last& last) {
    const v1::AcceptanceRecord& record = last.speculation();
    const v1::Timing& timing = last.timing();
    rounds += record.rounds();
    tokens += last.usage().completion_tokens();
    accepted_tokens += record.accepted_tokens();
    batch_rows += record.batch_rows();
    batch_sequences += record.batch_sequences();
    draft_us += timing.draft_us();
    verify_us += timing.verify_us();
    target_us += timing.target_us();
    cpu_us += timing.cpu_us();
    admission_us += timing.admission_us();
    queue_us += timing.queue_us();
    slot_us += timing.slot_us();
  }
};

void Add(const DeviceUse& more, DeviceUse& sum) {
  sum.passes += more.passes;
  sum.pass_rows += more.pass_rows;
  sum.pass_sequences += more.pass_sequences;
  sum.busy_us += more.busy_us;
  sum.idle_us += more.idle_us;
}

// Whether a round without a draft was meant to have one. A last token needs none, which is
// policy-zero too.
bool IsLoss(const std::string& cause) {
  return cause != "first-round" && cause != "off" && cause != "policy-zero";
}

const ModeRuns* Off(const LoadTable& table) {
  for (const ModeRuns& runs : table.modes) {
    if (runs.mode.off()) return &runs;
  }
  return nullptr;
}

std::string Two(std::optional<double> a, std::optional<double> b) {
  if (!a.has_value() || !b.has_value()) return "-";
  return absl::StrFormat("%.2f %7.2f", *a, *b);
}

std::string Three(const Percentiles& percentiles) {
  if (percentiles.count == 0) return "-";
  return absl::StrFormat("%.2f %6.2f %6.2f", percentiles.p50, percentiles.p95, percentiles.p99);
}

std::string FailureCounts(const LoadSummary& summary) {
  if (summary.failures.empty()) return "none";
  uint64_t all = 0;
  for (const auto& [name, failures] : summary.failures) all += failures.count;
  return absl::StrCat(all);
}

}  // namespace

LoadSummary Summarize(const ModeRuns& mode, const ModeRuns* off) {
  LoadSummary summary;
  Sums sums;
  DeviceUse device;
  bool device_known = !mode.runs.empty();
  std::vector<double> rates, ratios, first, per_token;
  for (size_t r = 0; r < mode.runs.size(); ++r) {
    const LoadRun& run = mode.runs[r];
    rates.push_back(run.TokensPerSecond());
    if (off != nullptr && r < off->runs.size() && off->runs[r].TokensPerSecond() > 0) {
      ratios.push_back(run.TokensPerSecond() / off->runs[r].TokensPerSecond());
    }
    for (const RequestRecord& request : run.requests) {
      sums.Add(request.last);
      for (const auto& caused : request.last.speculation().rounds_without_draft()) {
        summary.rounds_without_draft[caused.cause()] += caused.rounds();
      }
      first.push_back(request.first_token_ms);
      if (request.per_token_ms.has_value()) per_token.push_back(*request.per_token_ms);
    }
    device_known = device_known && run.device.has_value();
    if (run.device.has_value()) Add(*run.device, device);
    for (const auto& [name, failures] : run.failures) {
      Failures& all = summary.failures[name];
      if (all.count == 0) all.first_message = failures.first_message;
      all.count += failures.count;
    }
  }
  summary.requests = first.size();
  summary.tokens_per_second = SpreadOf(std::move(rates));
  if (!ratios.empty() && !mode.mode.off()) {
    summary.mean_ratio = MeanFactorOf(ratios);
    summary.ratio = SpreadOf(std::move(ratios));
  }
  summary.first_token_ms = PercentilesOf(std::move(first));
  summary.per_token_ms = PercentilesOf(std::move(per_token));
  if (device_known) {
    summary.pass_sequences = RatioOf(device.pass_sequences, device.passes);
    summary.pass_rows = RatioOf(device.pass_rows, device.passes);
    summary.device_share = RatioOf(device.busy_us, device.busy_us + device.idle_us);
  }
  summary.round_sequences = RatioOf(sums.batch_sequences, sums.rounds);
  summary.round_rows = RatioOf(sums.batch_rows, sums.rounds);
  const auto rounds = static_cast<double>(sums.rounds);
  summary.rounds = sums.rounds;
  uint64_t meant = 0, lost = 0;  // to be without a draft; to have one
  for (const auto& [cause, count] : summary.rounds_without_draft) {
    (IsLoss(cause) ? lost : meant) += count;
  }
  summary.undrafted_share =
      Ratio(static_cast<double>(lost), static_cast<double>(sums.rounds - meant));
  summary.tokens_per_round = Ratio(static_cast<double>(sums.tokens), rounds);
  summary.accepted_per_round = Ratio(static_cast<double>(sums.accepted_tokens), rounds);
  summary.draft_ms = Ratio(static_cast<double>(sums.draft_us), rounds) / 1000;
  summary.verify_ms = Ratio(static_cast<double>(sums.verify_us), rounds) / 1000;
  summary.queue_ms = Ratio(static_cast<double>(sums.queue_us), rounds) / 1000;
  summary.slot_ms = Ratio(static_cast<double>(sums.slot_us), rounds) / 1000;
  summary.target_ms = Ratio(static_cast<double>(sums.target_us), rounds) / 1000;
  summary.cpu_us = Ratio(static_cast<double>(sums.cpu_us), rounds);
  summary.admission_ms =
      Ratio(static_cast<double>(sums.admission_us), static_cast<double>(summary.requests)) / 1000;
  return summary;
}

std::string LoadDurationText(uint64_t runs, absl::Duration window) {
  return absl::StrCat(runs, " runs of at least ", absl::FormatDuration(window),
                      " each: ", absl::FormatDuration(static_cast<int64_t>(runs) * window),
                      " or more");
}

uint64_t CountFailures(const std::vector<LoadTable>& tables) {
  uint64_t count = 0;
  for (const LoadTable& table : tables) {
    for (const ModeRuns& mode : table.modes) {
      for (const LoadRun& run : mode.runs) {
        for (const auto& [name, failures] : run.failures) count += failures.count;
      }
    }
  }
  return count;
}

std::string LoadTableText(const LoadTable& table) {
  std::vector<LoadSummary> summaries;
  std::string text = absl::StrFormat("concurrency %-22d", table.concurrency);
  for (const ModeRuns& runs : table.modes) {
    summaries.push_back(Summarize(runs, Off(table)));
    absl::StrAppendFormat(&text, "%*s", kColumn, runs.mode.Name());
  }
  text += "\n";
  auto row = [&](const char* name, const std::function<std::string(const LoadSummary&)>& cell) {
    absl::StrAppendFormat(&text, "  %-32s", name);
    for (const LoadSummary& summary : summaries) {
      absl::StrAppendFormat(&text, "%*s", kColumn, cell(summary));
    }
    text += "\n";
  };
  row("tokens/s, min median max", [](const LoadSummary& s) {
    return absl::StrFormat("%.0f %6.0f %6.0f", s.tokens_per_second.min, s.tokens_per_second.median,
                           s.tokens_per_second.max);
  });
  row("ratio to off, min median max", [](const LoadSummary& s) -> std::string {
    if (!s.ratio.has_value()) return "-";
    return absl::StrFormat("%.2f %6.2f %6.2f", s.ratio->min, s.ratio->median, s.ratio->max);
  });
  row("  mean, and its 95 % interval", [](const LoadSummary& s) -> std::string {
    if (!s.mean_ratio.has_value()) return "-";
    return absl::StrFormat("%.3f %6.3f %6.3f", s.mean_ratio->mean, s.mean_ratio->low,
                           s.mean_ratio->high);
  });
  row("first token ms, p50 p95 p99", [](const LoadSummary& s) { return Three(s.first_token_ms); });
  row("time per token ms, p50 p95 p99", [](const LoadSummary& s) { return Three(s.per_token_ms); });
  row("target pass: sequences, rows",
      [](const LoadSummary& s) { return Two(s.pass_sequences, s.pass_rows); });
  row("a round's pass: sequences, rows",
      [](const LoadSummary& s) { return Two(s.round_sequences, s.round_rows); });
  row("target's device computes", [](const LoadSummary& s) -> std::string {
    if (!s.device_share.has_value()) return "-";
    return absl::StrFormat("%.1f %%", *s.device_share * 100);
  });
  row("requests, rounds",
      [](const LoadSummary& s) { return absl::StrFormat("%d %7d", s.requests, s.rounds); });
  row("a round: accepted, tokens",
      [](const LoadSummary& s) { return Two(s.accepted_per_round, s.tokens_per_round); });
  row("rounds that missed their draft",
      [](const LoadSummary& s) { return absl::StrFormat("%.1f %%", s.undrafted_share * 100); });
  row("a round ms: draft, verify",
      [](const LoadSummary& s) { return Two(s.draft_ms, s.verify_ms); });
  row("  of verify ms: queue, compute",
      [](const LoadSummary& s) { return Two(s.queue_ms, s.target_ms); });
  row("a round: orchestrator's CPU us",
      [](const LoadSummary& s) { return absl::StrFormat("%.1f", s.cpu_us); });
  row("waits ms: admission, slot a round",
      [](const LoadSummary& s) { return Two(s.admission_ms, s.slot_ms); });
  row("failures", FailureCounts);
  for (size_t i = 0; i < summaries.size(); ++i) {
    for (const auto& [cause, count] : summaries[i].rounds_without_draft) {
      if (!IsLoss(cause)) continue;
      absl::StrAppendFormat(&text, "    %s: %d rounds without a draft: %s\n",
                            table.modes[i].mode.Name(), count, cause);
    }
    for (const auto& [name, failures] : summaries[i].failures) {
      absl::StrAppendFormat(&text, "    %s: %d x %s, the first: %s\n", table.modes[i].mode.Name(),
                            failures.count, name, failures.first_message);
    }
  }
  return text;
}

std::string RatioText(const std::vector<LoadTable>& tables) {
  std::string text;
  for (const LoadTable& table : tables) {
    const ModeRuns* off = Off(table);
    if (off == nullptr) return "";
    if (text.empty()) {
      absl::StrAppendFormat(&text, "%-12s%14s", "concurrency", "off, tokens/s");
      for (const ModeRuns& runs : table.modes) {
        if (!runs.mode.off()) absl::StrAppendFormat(&text, "%*s", kColumn, runs.mode.Name());
      }
      text += "   ratio: min median max\n";
    }
    absl::StrAppendFormat(&text, "%11d %14.0f", table.concurrency,
                          Summarize(*off, nullptr).tokens_per_second.median);
    for (const ModeRuns& runs : table.modes) {
      if (runs.mode.off()) continue;
      const Spread ratio = Summarize(runs, off).ratio.value_or(Spread());
      absl::StrAppendFormat(
          &text, "%*s", kColumn,
          absl::StrFormat("%.2f %6.2f %6.2f", ratio.min, ratio.median, ratio.max));
    }
    text += "\n";
  }
  return text;
}

std::string IdleText(const std::vector<IdlePair>& pairs, double silence_s) {
  std::vector<double> silent, busy, more;
  for (const IdlePair& pair : pairs) {
    silent.push_back(pair.after_silence);
    busy.push_back(pair.busy);
    more.push_back(pair.after_silence - pair.busy);
  }
  std::string text = absl::StrFormat("time to first token, %d interleaved pairs %10s %8s %8s\n",
                                     pairs.size(), "min", "median", "max");
  auto row = [&](const std::string& name, const Spread& spread) {
    absl::StrAppendFormat(&text, "  %-44s %8.3f %8.3f %8.3f  ms\n", name, spread.min, spread.median,
                          spread.max);
  };
  row(absl::StrFormat("after %.1f s of silence", silence_s), SpreadOf(std::move(silent)));
  row("right after other requests", SpreadOf(std::move(busy)));
  row("difference, pair by pair", SpreadOf(std::move(more)));
  return text;
}

}  // namespace tandem::client
