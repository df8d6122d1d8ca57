#include "client/generate/timeline_bar.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/check.h"

namespace tandem::client {
namespace {

// Work is solid, waiting is a line. Colours are of the 256: those of Okabe and Ito, which people
// with any colour vision tell apart, in a lightness that stands on black and on white.
struct Look {
  int color;
  absl::string_view pattern;
  absl::string_view ascii;
};

Look LookOf(Stage stage) {
  switch (stage) {
    case Stage::kDraft:
      return {36, "▒", "d"};  // green
    case Stage::kNetwork:
      return {214, "─", "-"};  // orange
    case Stage::kSlot:
      return {175, "·", "."};  // pink
    case Stage::kQueue:
      return {166, "┈", ":"};  // vermilion
    case Stage::kDevice:
      return {32, "█", "#"};  // blue
    case Stage::kOwn:
      return {245, "▓", "o"};  // grey
  }
  return {0, "?", "?"};
}

constexpr int kEighths = 8;
// From an eighth to all of a column.
constexpr std::array<absl::string_view, 8> kLengths = {"▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"};
constexpr std::array<absl::string_view, 8> kHeights = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr std::array<absl::string_view, 8> kAsciiHeights = {".", ":", "-", "=", "+", "*", "#", "@"};

std::string Sgr(std::optional<Stage> front, std::optional<Stage> back) {
  std::string sgr;
  if (front) absl::StrAppend(&sgr, "38;5;", LookOf(*front).color);
  if (back) absl::StrAppend(&sgr, sgr.empty() ? "" : ";", "48;5;", LookOf(*back).color);
  return sgr;
}

// Joins what has the same colours, so that a bar is a few escape codes and not one per column.
class Painter {
 public:
  explicit Painter(const TerminalStyle& style) : style_(style) {}

  void Add(const std::string& sgr, absl::string_view text) {
    if (sgr != sgr_) Flush();
    sgr_ = sgr;
    absl::StrAppend(&run_, text);
  }
  std::string Finish() {
    Flush();
    return std::move(text_);
  }

 private:
  void Flush() {
    absl::StrAppend(&text_, Paint(sgr_, run_, style_));
    run_.clear();
  }

  const TerminalStyle& style_;
  std::string text_;
  std::string sgr_;
  std::string run_;
};

// A part of a bar. Without a stage it lies behind the bar's end.
struct Run {
  std::optional<Stage> stage;
  int eighths = 0;
};

// A character has two colours: the shortest of more runs joins the longer of its neighbours.
void JoinToTwo(std::vector<Run>& runs) {
  while (runs.size() > 2) {
    const auto shortest = std::min_element(
        runs.begin(), runs.end(), [](const Run& a, const Run& b) { return a.eighths < b.eighths; });
    auto neighbour = shortest == runs.begin() ? shortest + 1 : shortest - 1;
    if (shortest != runs.begin() && shortest + 1 != runs.end() &&
        (shortest + 1)->eighths > neighbour->eighths) {
      neighbour = shortest + 1;
    }
    neighbour->eighths += shortest->eighths;
    runs.erase(shortest);
  }
}

void AddColumn(std::vector<Run> runs, Painter& painter) {
  JoinToTwo(runs);
  if (!runs[0].stage) return painter.Add("", " ");
  const std::optional<Stage> behind = runs.size() > 1 ? runs[1].stage : std::nullopt;
  painter.Add(Sgr(runs[0].stage, behind), kLengths[runs[0].eighths - 1]);
}

// The end of each stage in `units`, for a bar that is `length` units long.
std::array<double, kStageCount> Ends(const v1::Stages& stages, double length) {
  const double total = static_cast<double>(TotalMicroseconds(stages));
  std::array<double, kStageCount> ends = {};
  double sum = 0;
  for (size_t i = 0; i < kStageCount; ++i) {
    sum += static_cast<double>(Microseconds(stages, kStages[i]));
    ends[i] = total > 0 ? length * sum / total : 0;
  }
  return ends;
}

void ColorBar(const v1::Stages& stages, double length, int columns, Painter& painter) {
  const std::array<double, kStageCount> ends =
      Ends(stages, std::max(1.0, std::round(length * kEighths)));
  size_t at = 0;
  for (int column = 0; column < columns; ++column) {
    std::vector<Run> runs;
    for (int eighth = column * kEighths; eighth < (column + 1) * kEighths; ++eighth) {
      while (at < kStageCount && ends[at] < eighth + 0.5) ++at;
      const std::optional<Stage> stage =
          at < kStageCount ? std::optional(kStages[at]) : std::nullopt;
      if (runs.empty() || runs.back().stage != stage) runs.push_back({stage, 0});
      ++runs.back().eighths;
    }
    AddColumn(std::move(runs), painter);
  }
}

void PatternBar(const v1::Stages& stages, double length, int columns, bool utf8, Painter& painter) {
  const int filled = std::max(1, static_cast<int>(std::lround(length)));
  const std::array<double, kStageCount> ends = Ends(stages, filled);
  for (int column = 0; column < columns; ++column) {
    Stage max = Stage::kOwn;
    double max_part = 0;
    for (size_t i = 0; i < kStageCount; ++i) {
      const double begin = std::max<double>(column, i == 0 ? 0 : ends[i - 1]);
      const double part = std::min<double>(column + 1, ends[i]) - begin;
      if (part > max_part + 1e-9) {
        max = kStages[i];
        max_part = part;
      }
    }
    const Look look = LookOf(max);
    if (column >= filled) {
      painter.Add("", " ");
    } else {
      painter.Add(Sgr(max, std::nullopt), utf8 ? look.pattern : look.ascii);
    }
  }
}

// 1, 2 or 5 times a power of ten: the least of them that is not below `least`.
double NiceStep(double min) {
  const double power = std::pow(10.0, std::floor(std::log10(min)));
  for (double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= min * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

}  // namespace

Scale ScaleFor(std::vector<uint64_t> times, int columns) {
  // A time is "far longer" if it exceeds nine tenths of the others by this factor.
  constexpr double kFar = 3;
  Scale scale;
  scale.columns = std::max(1, columns);
  std::sort(times.begin(), times.end());
  if (times.empty() || times.back() == 0) return scale;
  const double usual = static_cast<double>(times[(times.size() - 1) * 9 / 10]);
  scale.longest = static_cast<double>(times.back());
  if (usual <= 0 || scale.longest <= kFar * usual) return scale;
  scale.clipped = true;
  for (uint64_t time : times) {
    if (static_cast<double>(time) <= kFar * usual) scale.longest = static_cast<double>(time);
  }
  return scale;
}

std::string Bar(const v1::Stages& stages, const Scale& scale, const TerminalStyle& style) {
  const double time = static_cast<double>(TotalMicroseconds(stages));
  if (time == 0) return std::string(scale.columns, ' ');
  Painter painter(style);
  const bool longer = time > scale.longest * (1 + 1e-9);
  const int columns = longer ? scale.columns - 1 : scale.columns;
  const double length = longer ? columns : time / scale.PerColumn();
  if (style.color && style.utf8) {
    ColorBar(stages, length, columns, painter);
  } else {
    PatternBar(stages, length, columns, style.utf8, painter);
  }
  return absl::StrCat(painter.Finish(), longer ? ClippedMark(style) : "");
}

std::string ClippedMark(const TerminalStyle& style) {
  return Paint("1", style.utf8 ? "»" : ">", style);
}

std::string Axis(const Scale& scale) {
  constexpr int kLabelColumns = 8;
  const double step = NiceStep(scale.PerColumn() * kLabelColumns / 1000);
  const int decimals = std::max(0, static_cast<int>(-std::floor(std::log10(step) + 1e-9)));
  std::string axis = "0";
  for (int i = 1; i * step * 1000 < scale.longest; ++i) {
    const size_t at = static_cast<size_t>(std::lround(i * step * 1000 / scale.PerColumn()));
    const std::string label = absl::StrFormat("%.*f", decimals, i * step);
    if (at <= axis.size() || at + label.size() > static_cast<size_t>(scale.columns)) break;
    absl::StrAppend(&axis, std::string(at - axis.size(), ' '), label);
  }
  if (axis.size() + 3 <= static_cast<size_t>(scale.columns)) axis += " ms";
  return axis;
}

std::string Histogram(const std::vector<uint64_t>& times, const Scale& scale,
                      const TerminalStyle& style) {
  std::vector<uint64_t> counts(scale.columns);
  for (uint64_t time : times) {
    const double column = static_cast<double>(time) / scale.PerColumn();
    ++counts[std::min<size_t>(counts.size() - 1, static_cast<size_t>(column))];
  }
  const uint64_t max = std::max<uint64_t>(1, *std::max_element(counts.begin(), counts.end()));
  Painter painter(style);
  for (uint64_t count : counts) {
    // Rounded up, so that every time above 0 is visible.
    const uint64_t height = (count * kHeights.size() + max - 1) / max;
    const auto& heights = style.utf8 ? kHeights : kAsciiHeights;
    painter.Add("", height == 0 ? " " : heights[height - 1]);
  }
  return painter.Finish();
}

std::string Swatch(Stage stage, int columns, const TerminalStyle& style) {
  const Look look = LookOf(stage);
  const bool solid = style.color && style.utf8;
  std::string text;
  for (int i = 0; i < columns; ++i) {
    absl::StrAppend(&text, solid ? "█" : style.utf8 ? look.pattern : look.ascii);
  }
  return Paint(Sgr(stage, std::nullopt), text, style);
}

std::string Milliseconds(double microseconds, int decimals) {
  return absl::StrFormat("%.*f", decimals, microseconds / 1000);
}

int DecimalsFor(double largest_microseconds) {
  if (largest_microseconds < 10'000) return 2;
  return largest_microseconds < 10'000'000 ? 1 : 0;
}

}  // namespace tandem::client
