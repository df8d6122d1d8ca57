#include "client/theory/options.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/status_macros.h"

namespace tandem::client {
namespace {

constexpr size_t kMaxValues = 32;  // of alpha, of gamma
constexpr double kMaxRatio = 100;  // c, c-hat, draft-reads
constexpr double kMaxMicroseconds = 1e12;

}  // namespace

absl::StatusOr<std::vector<double>> ParseAlphas(absl::string_view text) {
  std::vector<double> alphas;
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    double alpha = 0;
    if (!absl::SimpleAtod(part, &alpha) || !flags::Range{0, 1}.Contains(alpha)) {
      return flags::BadFlag("alpha", text, "must be numbers, 0 to 1, with commas between them");
    }
    alphas.push_back(alpha);
  }
  if (alphas.size() > kMaxValues) {
    return flags::BadFlag("alpha", text, absl::StrCat("has more than ", kMaxValues, " numbers"));
  }
  return alphas;
}

absl::StatusOr<std::vector<theory::PassTime::Point>> ParseCostCurve(absl::string_view text) {
  std::vector<theory::PassTime::Point> points;
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    const std::pair<absl::string_view, absl::string_view> halves =
        absl::StrSplit(part, absl::MaxSplits(':', 1));
    const std::optional<uint64_t> rows = flags::ParseWhole(halves.first, 1, UINT32_MAX);
    double microseconds = 0;
    if (!rows.has_value() || !absl::SimpleAtod(halves.second, &microseconds) ||
        !flags::Range{0, kMaxMicroseconds, /*exclusive_min=*/true}.Contains(microseconds)) {
      return flags::BadFlag(
          "cost-curve", text,
          absl::StrCat("'", part,
                       "' must be rows, at least 1, and the microseconds of a pass of so "
                       "many: 1:2100,5:2700"));
    }
    points.push_back({static_cast<uint32_t>(*rows), microseconds});
  }
  if (absl::Status status = theory::PassTime::Create(points).status(); !status.ok()) {
    return flags::BadFlag("cost-curve", text, status.message());
  }
  return points;
}

void TheoryOptions::AddTo(flags::FlagSet& flags) {
  flags.Group("Speculation");
  flags.Custom(
      "alpha",
      [this](absl::string_view text) {
        TANDEM_ASSIGN_OR_RETURN(alphas, ParseAlphas(text));
        return absl::OkStatus();
      },
      "A[,A...]: chances that a candidate is accepted, 0 to 1; a grid when absent");
  flags.NumberList("gamma", &gammas, kMaxValues,
                   "G[,G...]: candidates a round, 0 to 1000; a grid when absent");
  flags.Real("c", &c, {0, kMaxRatio}, "time of a draft step, of the target's as 1; 0 when absent");
  flags.Real("c-hat", &c_hat, {0, kMaxRatio}, "the same of arithmetic operations; 0 when absent");
  flags.Real("draft-reads", &draft_reads, {0, kMaxRatio},
             "what a draft step reads, of a target pass as 1; 0 when absent");
  flags.Number("max-gamma", &max_gamma, 1, kMaxGamma, "the best gamma is looked for up to it");
  flags.Group("Rounds of a split draft");
  flags.Custom(
      "cost-curve",
      [this](absl::string_view text) {
        TANDEM_ASSIGN_OR_RETURN(cost_curve, ParseCostCurve(text));
        return absl::OkStatus();
      },
      "ROWS:US[,ROWS:US...]: microseconds of a target pass by its rows; then the "
      "rounds of a split draft are told as well");
  flags.Real("draft-us", &draft_us, {0, kMaxMicroseconds},
             "with --cost-curve: microseconds a candidate; 0 when absent");
  flags.Real("rtt-us", &round_trip_us, {0, kMaxMicroseconds},
             "with --cost-curve: of the way to the draft and back; 0 when absent");
  flags.Group("Output");
  flags.Switch("json", &json, "print one JSON object instead of tables");
}

absl::Status TheoryOptions::Validate() const {
  for (uint32_t gamma : gammas) {
    if (gamma <= kMaxGamma) continue;
    return flags::BadFlag("gamma", absl::StrCat(gamma),
                          absl::StrCat("must be whole numbers, 0 to ", kMaxGamma));
  }
  if (cost_curve.empty() && draft_us.has_value()) {
    return flags::BadFlag("draft-us", absl::StrCat(*draft_us), "needs --cost-curve=ROWS:US,...");
  }
  if (cost_curve.empty() && round_trip_us.has_value()) {
    return flags::BadFlag("rtt-us", absl::StrCat(*round_trip_us), "needs --cost-curve=ROWS:US,...");
  }
  return absl::OkStatus();
}

}  // namespace tandem::client
