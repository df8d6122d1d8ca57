#include "client/generate/timeline.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/common/stats.h"
#include "client/generate/timeline_bar.h"
#include "client/generate/timeline_rows.h"
#include "common/theory/acceptance.h"

namespace tandem::client {
namespace {

using Rounds = std::vector<v1::RoundRecord>;

// One vector a sample, rounds in order.
std::vector<Rounds> BySample(absl::Span<const v1::RoundRecord> rounds) {
  Rounds sorted(rounds.begin(), rounds.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return std::pair(a.sample_index(), a.number()) < std::pair(b.sample_index(), b.number());
  });
  std::vector<Rounds> samples;
  for (v1::RoundRecord& round : sorted) {
    if (samples.empty() || samples.back().back().sample_index() != round.sample_index()) {
      samples.emplace_back();
    }
    samples.back().push_back(std::move(round));
  }
  return samples;
}

std::vector<uint64_t> Times(absl::Span<const v1::RoundRecord> rounds) {
  std::vector<uint64_t> times;
  for (const v1::RoundRecord& round : rounds) times.push_back(Microseconds(round));
  return times;
}

// "12 rounds", "1 round".
std::string Count(size_t rounds) {
  return absl::StrCat(rounds, rounds == 1 ? " round" : " rounds");
}

// From the first beginning to the last decision.
uint64_t TimeSpan(absl::Span<const v1::RoundRecord> rounds) {
  uint64_t begin = UINT64_MAX;
  uint64_t end = 0;
  for (const v1::RoundRecord& round : rounds) {
    begin = std::min(begin, round.began_us());
    end = std::max(end, round.began_us() + Microseconds(round));
  }
  return end - begin;
}

// The part that is drawn.
struct Drawn {
  std::vector<Rounds> samples;
  std::vector<std::vector<size_t>> rows;  // of each sample, indices
  size_t count = 0;
};

Drawn Choose(absl::Span<const v1::RoundRecord> rounds, bool all) {
  constexpr size_t kMinRows = 8;  // of a sample
  Drawn drawn{BySample(rounds), {}, 0};
  const size_t max = std::max(kMinRows, kMaxRows / drawn.samples.size());
  for (const Rounds& sample : drawn.samples) {
    drawn.rows.push_back(ChooseRows(Times(sample), all ? sample.size() : max));
    drawn.count += drawn.rows.back().size();
  }
  return drawn;
}

std::string Title(absl::Span<const v1::RoundRecord> rounds, const Drawn& drawn,
                  const TimelineOptions& options) {
  const double span = static_cast<double>(TimeSpan(rounds));
  std::string text = absl::StrCat("timeline: ", Count(rounds.size()));
  if (drawn.samples.size() > 1) {
    absl::StrAppend(&text, " of ", drawn.samples.size(), " samples");
  }
  absl::StrAppend(&text, " in ", Milliseconds(span, std::min(1, DecimalsFor(span))), " ms");
  if (drawn.count < rounds.size()) {
    absl::StrAppend(&text, "; the first and the slowest are shown, --timeline=all shows all");
  }
  return Wrap(text, options.style.width, 0);
}

std::string Legend(absl::Span<const v1::RoundRecord> rounds, const RowLayout& layout) {
  const TerminalStyle& style = layout.style;
  std::vector<std::string> stages;
  for (Stage stage : kStages) {
    stages.push_back(absl::StrCat(Swatch(stage, 1, style), " ", Name(stage)));
  }
  if (layout.scale.clipped) {
    stages.push_back(absl::StrCat(ClippedMark(style), " longer than the scale"));
  }
  return absl::StrCat(Wrap(stages, 2, style.width, 2),
                      Wrap(TokensLegend(rounds, style), 2, style.width, 2));
}

std::string Rows(const Drawn& drawn, const RowLayout& layout, const TimelineOptions& options) {
  std::string text;
  for (size_t i = 0; i < drawn.samples.size(); ++i) {
    const Rounds& sample = drawn.samples[i];
    if (drawn.samples.size() > 1) {
      absl::StrAppend(&text, " sample ", options.first_sample + sample[0].sample_index(), ", ",
                      Count(sample.size()), "\n");
    }
    size_t next = 0;
    for (size_t row : drawn.rows[i]) {
      if (row > next) absl::StrAppend(&text, layout.Gap(row - next));
      absl::StrAppend(&text, layout.Row(sample[row]));
      next = row + 1;
    }
    if (next < sample.size()) absl::StrAppend(&text, layout.Gap(sample.size() - next));
  }
  return text;
}

// A histogram of all times, if not all rounds are shown or they are too many to read.
std::string HowLong(absl::Span<const v1::RoundRecord> rounds, const RowLayout& layout) {
  const std::vector<uint64_t> times = Times(rounds);
  std::vector<double> sorted(times.begin(), times.end());
  std::sort(sorted.begin(), sorted.end());
  const int decimals = DecimalsFor(sorted.back());
  std::string text = "a round's time: ";
  for (const auto& [name, share] : {std::pair("p50", 0.5), {"p95", 0.95}, {"p99", 0.99}}) {
    absl::StrAppend(&text, name, " ", Milliseconds(Percentile(sorted, share), decimals), ", ");
  }
  absl::StrAppend(&text, "longest ", Milliseconds(sorted.back(), decimals), " ms");
  return absl::StrCat(layout.BesideBar("how many", Histogram(times, layout.scale, layout.style)),
                      Wrap(text, layout.style.width, 2));
}

// A row per stage: the sum, its share, the mean, and a bar where there is room.
std::string StageTable(absl::Span<const v1::RoundRecord> rounds, const TerminalStyle& style) {
  constexpr int kMeanColumns = 47;  // up to the mean
  constexpr int kMaxBar = 32;
  const v1::Stages sum = SumStages(rounds);
  const double total = static_cast<double>(std::max<uint64_t>(1, TotalMicroseconds(sum)));
  const double count = static_cast<double>(rounds.size());
  double largest = 1;
  for (Stage stage : kStages) {
    largest = std::max(largest, static_cast<double>(Microseconds(sum, stage)));
  }
  const int bar = std::clamp(style.width - kMeanColumns - 2, 0, kMaxBar);
  std::string text;
  for (Stage stage : kStages) {
    const double time = static_cast<double>(Microseconds(sum, stage));
    absl::StrAppendFormat(&text, "  %-7s %9s ms %3.0f %%", Name(stage),
                          Milliseconds(time, DecimalsFor(largest)), 100 * time / total);
    if (style.width >= kMeanColumns) {
      absl::StrAppendFormat(&text, "  %7s per round",
                            Milliseconds(time / count, DecimalsFor(largest / count)));
    }
    const int length = static_cast<int>(std::lround(bar * time / largest));
    if (length > 0) absl::StrAppend(&text, "  ", Swatch(stage, length, style));
    text += "\n";
  }
  return text;
}

// The conclusion: the slowest stage.
std::string Conclusion(absl::Span<const v1::RoundRecord> rounds, const TerminalStyle& style) {
  std::string text;
  if (const auto slowest = SlowestStage(rounds); slowest.has_value()) {
    const double a_round = absl::ToDoubleMicroseconds(slowest->a_round);
    text = Wrap(absl::StrFormat("slowest: %s, %.0f %% of the rounds' time (%s ms per round)",
                                Name(slowest->stage), 100 * slowest->share,
                                Milliseconds(a_round, DecimalsFor(a_round))),
                style.width, 2);
  }
  uint64_t tokens = 0, draft_tokens = 0, accepted_tokens = 0, rejected_rounds = 0;
  for (const v1::RoundRecord& round : rounds) {
    tokens += round.tokens();
    draft_tokens += round.draft_tokens();
    accepted_tokens += round.accepted_tokens();
    if (round.accepted_tokens() < round.draft_tokens()) ++rejected_rounds;
  }
  std::string rates =
      absl::StrFormat("%.2f tokens per round; ", static_cast<double>(tokens) / rounds.size());
  if (draft_tokens == 0) {
    absl::StrAppend(&rates, "nothing was drafted");
  } else {
    absl::StrAppendFormat(&rates, "accepted %d of %d drafted; alpha-hat %.2f", accepted_tokens,
                          draft_tokens, theory::EstimateAlpha(accepted_tokens, rejected_rounds));
  }
  return text + Wrap(rates, style.width, 2);
}

}  // namespace

std::string Timeline(absl::Span<const v1::RoundRecord> rounds, const TimelineOptions& options) {
  if (rounds.empty()) return "timeline: no rounds\n";
  const Drawn drawn = Choose(rounds, options.all);
  Rounds shown;
  for (size_t i = 0; i < drawn.samples.size(); ++i) {
    for (size_t row : drawn.rows[i]) shown.push_back(drawn.samples[i][row]);
  }
  const RowLayout layout(shown, options.style);
  std::string text = absl::StrCat(Title(rounds, drawn, options), Legend(shown, layout), "\n",
                                  layout.Head(), Rows(drawn, layout, options));
  if (rounds.size() > kMaxRows || drawn.count < rounds.size()) {
    absl::StrAppend(&text, HowLong(rounds, layout));
  }
  return absl::StrCat(text, "\n", StageTable(rounds, options.style),
                      Conclusion(rounds, options.style));
}

}  // namespace tandem::client
