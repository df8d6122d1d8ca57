#include "client/generate/timeline_rows.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace tandem::client {
namespace {

constexpr char kDim[] = "2";
constexpr char kBold[] = "1";
constexpr int kMinBar = 16;

struct Marks {
  absl::string_view accepted, rejected, cut, own, times, gap;
};

Marks MarksOf(const TerminalStyle& style) {
  if (style.utf8) return {"●", "○", "◌", "+", "×", "⋮"};
  return {"*", "x", "~", "+", "x", ":"};
}

std::string Repeat(absl::string_view text, uint32_t times) {
  std::string all;
  for (uint32_t i = 0; i < times; ++i) absl::StrAppend(&all, text);
  return all;
}

std::string Blanks(int columns) { return std::string(std::max(0, columns), ' '); }

std::string Left(const std::string& text, int width) {
  return absl::StrCat(text, Blanks(width - Columns(text)));
}

std::string Right(const std::string& text, int width) {
  return absl::StrCat(Blanks(width - Columns(text)), text);
}

// Accepted draft tokens that the text got. A text that ends leaves out the rest, and the target's
// own token.
uint32_t Kept(const v1::RoundRecord& round) {
  return std::min(round.accepted_tokens(), round.tokens());
}

bool HasOwnToken(const v1::RoundRecord& round) { return round.tokens() > round.accepted_tokens(); }

uint32_t Rejected(const v1::RoundRecord& round) {
  return round.draft_tokens() - std::min(round.draft_tokens(), round.accepted_tokens());
}

std::string PassCell(const v1::RoundRecord& round, const TerminalStyle& style) {
  return absl::StrCat("#", round.pass_id(), " ", MarksOf(style).times, round.pass_sequences());
}

std::string TrimRight(std::string line) {
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line + "\n";
}

}  // namespace

std::vector<size_t> ChooseRows(const std::vector<uint64_t>& times, size_t max) {
  std::vector<size_t> rows(times.size());
  std::iota(rows.begin(), rows.end(), size_t{0});
  if (times.size() <= max) return rows;
  const size_t part = std::max<size_t>(1, max / 4);
  std::stable_sort(rows.begin() + static_cast<std::ptrdiff_t>(part), rows.end(),
                   [&](size_t a, size_t b) { return times[a] > times[b]; });
  rows.resize(2 * part);
  std::sort(rows.begin(), rows.end());
  std::vector<size_t> filled;
  for (size_t row : rows) {
    if (!filled.empty() && row == filled.back() + 2) filled.push_back(row - 1);
    filled.push_back(row);
  }
  if (filled.back() + 2 == times.size()) filled.push_back(times.size() - 1);
  return filled;
}

std::string TokensCell(const v1::RoundRecord& round, const TerminalStyle& style) {
  const Marks marks = MarksOf(style);
  std::string text = Repeat(marks.accepted, Kept(round));
  absl::StrAppend(&text,
                  Paint(kDim, Repeat(marks.cut, round.accepted_tokens() - Kept(round)), style),
                  Paint(kDim, Repeat(marks.rejected, Rejected(round)), style));
  if (HasOwnToken(round)) absl::StrAppend(&text, Paint(kBold, marks.own, style));
  if (!round.prepared().empty()) {
    absl::StrAppend(&text, text.empty() ? "" : " ", Paint(kDim, round.prepared(), style));
  }
  if (round.cause().empty()) return text;
  return absl::StrCat(text, text.empty() ? "" : " ", Paint(kDim, round.cause(), style));
}

std::vector<std::string> TokensLegend(absl::Span<const v1::RoundRecord> rounds,
                                      const TerminalStyle& style) {
  const Marks marks = MarksOf(style);
  std::vector<std::string> items = {
      absl::StrCat(marks.accepted, " accepted"),
      absl::StrCat(Paint(kDim, marks.rejected, style), " rejected"),
      absl::StrCat(Paint(kBold, marks.own, style), " the target's own token")};
  if (std::any_of(rounds.begin(), rounds.end(), [](const v1::RoundRecord& round) {
        return Kept(round) < round.accepted_tokens();
      })) {
    items.push_back(absl::StrCat(Paint(kDim, marks.cut, style), " past the text's end"));
  }
  return items;
}

RowLayout::RowLayout(absl::Span<const v1::RoundRecord> rounds, const TerminalStyle& style_in)
    : style(style_in) {
  uint64_t last_start = 0;
  uint64_t longest = 0;
  uint32_t last_number = 0;
  std::vector<uint64_t> times;
  tokens_width = Columns("tokens");
  pass_width = Columns("pass");
  for (const v1::RoundRecord& round : rounds) {
    last_start = std::max(last_start, round.began_us());
    longest = std::max(longest, Microseconds(round));
    last_number = std::max(last_number, round.number());
    times.push_back(Microseconds(round));
    tokens_width = std::max(tokens_width, Columns(TokensCell(round, style)));
    pass_width = std::max(pass_width, Columns(PassCell(round, style)));
  }
  start_decimals = std::min(1, DecimalsFor(static_cast<double>(last_start)));
  took_decimals = DecimalsFor(static_cast<double>(longest));
  number_width = std::max(Columns("round"), Columns(absl::StrCat(last_number)));
  start_width = std::max(Columns("at ms"),
                         Columns(Milliseconds(static_cast<double>(last_start), start_decimals)));
  took_width =
      std::max(Columns("took"), Columns(Milliseconds(static_cast<double>(longest), took_decimals)));

  const auto bar = [&] {
    int others = 1 + number_width + 1 + took_width + 2 + 2 + tokens_width;
    if (start_width > 0) others += 1 + start_width;
    if (pass_width > 0) others += 2 + pass_width;
    return style.width - others;
  };
  if (bar() < kMinBar) pass_width = 0;
  if (bar() < kMinBar) start_width = 0;
  const int max_tokens = tokens_width - (kMinBar - bar());
  if (bar() < kMinBar) tokens_width = std::max(Columns("tokens"), max_tokens);
  scale = ScaleFor(std::move(times), std::max(1, bar()));
}

std::string RowLayout::Head() const {
  std::string line = absl::StrCat(" ", Right("round", number_width));
  if (start_width > 0) absl::StrAppend(&line, " ", Right("at ms", start_width));
  absl::StrAppend(&line, " ", Right("took", took_width), "  ", Left(Axis(scale), scale.columns),
                  "  ", Left("tokens", tokens_width));
  if (pass_width > 0) absl::StrAppend(&line, "  pass");
  line = TrimRight(std::move(line));
  line.pop_back();
  return Paint(kDim, line, style) + "\n";
}

std::string RowLayout::Row(const v1::RoundRecord& round) const {
  std::string line = absl::StrCat(" ", Right(absl::StrCat(round.number()), number_width));
  if (start_width > 0) {
    absl::StrAppend(
        &line, " ",
        Right(Milliseconds(static_cast<double>(round.began_us()), start_decimals), start_width));
  }
  const double took = static_cast<double>(Microseconds(round));
  absl::StrAppend(&line, " ", Right(Milliseconds(took, took_decimals), took_width), "  ",
                  Bar(round.stages(), scale, style), "  ",
                  Left(Fit(TokensCell(round, style), tokens_width), tokens_width));
  if (pass_width > 0) {
    absl::StrAppend(&line, "  ", Paint(kDim, PassCell(round, style), style));
  }
  return TrimRight(std::move(line));
}

std::string RowLayout::Gap(size_t rounds) const {
  const std::string text =
      absl::StrCat(MarksOf(style).gap, " ", rounds, rounds == 1 ? " round" : " rounds");
  return absl::StrCat(Blanks(number_width), Paint(kDim, text, style), "\n");
}

std::string RowLayout::BesideBar(const std::string& label, const std::string& bar) const {
  const int before = 1 + number_width + (start_width > 0 ? 1 + start_width : 0) + 1 + took_width;
  return TrimRight(absl::StrCat(Right(label, before), "  ", bar));
}

}  // namespace tandem::client
