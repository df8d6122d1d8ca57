#include "client/theory/options.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/common/cost_curve.h"
#include "common/base/status_macros.h"
#include "common/theory/acceptance.h"

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
      "A[,A...]: chances that a draft token is accepted, 0 to 1. Default: what --orchestrator "
      "measured, else a grid");
  flags.NumberList("gamma", &gammas, kMaxValues,
                   "G[,G...]: draft tokens per round, 0 to 1000. Default: a grid");
  flags.Number("max-gamma", &max_gamma, 1, kMaxGamma, "the best gamma is looked for up to it");
  flags.Group("Times of a split draft");
  const auto time = [&](const char* name, double unit, std::optional<double>* us, bool positive,
                        absl::string_view help) {
    flags.Custom(
        name,
        [=](absl::string_view text) {
          double value = 0;
          const flags::Range range{0, kMaxMicroseconds / unit, positive};
          if (!absl::SimpleAtod(text, &value) || !range.Contains(value)) {
            return flags::BadFlag(name, text, absl::StrCat("must be a number, ", range.ToString()));
          }
          if (us->has_value()) {
            return flags::BadFlag(name, text, "is given in the other unit, too; give one of both");
          }
          *us = value * unit;
          return absl::OkStatus();
        },
        help);
  };
  time("target-ms", 1000, &target_us, true, "milliseconds of a target pass, whatever its rows");
  flags.Custom(
      "cost-curve",
      [this](absl::string_view text) {
        TANDEM_ASSIGN_OR_RETURN(cost_curve, ParseCostCurve(text));
        return absl::OkStatus();
      },
      "ROWS:US[,ROWS:US...]: microseconds of a target pass by its rows, in place of --target-ms");
  time("draft-ms", 1000, &draft_us, false, "milliseconds per draft token. Default: 0");
  time("draft-us", 1, &draft_us, false, "the same in microseconds");
  time("rtt-ms", 1000, &round_trip_us, false,
       "milliseconds to the draft and back, once per round. Default: 0");
  time("rtt-us", 1, &round_trip_us, false, "the same in microseconds");
  time("target-rtt-ms", 1000, &target_round_trip_us, false,
       "milliseconds to the target and back, once per round, and not for all prepared blocks. "
       "Default: 0");
  time("target-rtt-us", 1, &target_round_trip_us, false, "the same in microseconds");
  flags.Real("draft-row", &draft_row, {0, kMaxRatio},
             "what each further row adds to a draft pass, as a part of it: the price of blocks "
             "prepared in advance. Default: 0.1");
  orchestrator.AddOptionalTo(flags,
                             "HOST:PORT: takes alpha, cost curve and draft time from what it has "
                             "measured, where no flag gives them");
  flags.Group("The paper's formulas");
  flags.Real("c", &c, {0, kMaxRatio},
             "time of a draft step, as a part of the target's. Default: 0");
  flags.Real("c-hat", &c_hat, {0, kMaxRatio}, "the same of arithmetic operations. Default: 0");
  flags.Real("draft-reads", &draft_reads, {0, kMaxRatio},
             "what a draft step reads, as a part of a target pass. Default: 0");
  flags.Group("Output");
  flags.Switch("json", &json, "print one JSON object instead of tables");
}

absl::Status TheoryOptions::Validate() const {
  for (uint32_t gamma : gammas) {
    if (gamma <= kMaxGamma) continue;
    return flags::BadFlag("gamma", absl::StrCat(gamma),
                          absl::StrCat("must be whole numbers, 0 to ", kMaxGamma));
  }
  if (target_us.has_value() && !cost_curve.empty()) {
    return absl::InvalidArgumentError(
        "--target-ms and --cost-curve both say how long a target pass takes; give one");
  }
  if (!timed()) {
    for (const auto& [name, us] : {std::pair("draft", draft_us), std::pair("rtt", round_trip_us),
                                   std::pair("target-rtt", target_round_trip_us)}) {
      if (!us.has_value()) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("--", name, "-ms (or --", name,
                       "-us) needs the target's time: --target-ms=MS, "
                       "--cost-curve=ROWS:US,... or --orchestrator=HOST:PORT"));
    }
    if (draft_row.has_value()) {
      return absl::InvalidArgumentError(
          "--draft-row prices blocks prepared in advance: it needs --target-ms=MS, "
          "--cost-curve=ROWS:US,... or --orchestrator=HOST:PORT");
    }
    if (orchestrator.tls.enabled() || !orchestrator.token_file.empty()) {
      return absl::InvalidArgumentError(
          "--tls-ca and --token-file are of a connection: they need --orchestrator=HOST:PORT");
    }
    return absl::OkStatus();
  }
  for (const auto& [name, value] :
       {std::pair("c", c), std::pair("c-hat", c_hat), std::pair("draft-reads", draft_reads)}) {
    if (!value.has_value()) continue;
    return flags::BadFlag(name, absl::StrCat(*value),
                          "is of the paper's formulas, which know no times; without it give "
                          "--draft-ms, or leave the times out");
  }
  return orchestrator.address.empty() ? absl::OkStatus() : orchestrator.Validate();
}

absl::Status TheoryOptions::TakeFrom(const v1::DescribeReply& measured) {
  if (cost_curve.empty() && !target_us.has_value()) {
    for (const v1::Peer& peer : measured.peers()) {
      if (peer.role() != v1::Peer::ROLE_TARGET || !peer.ready() || !cost_curve.empty()) continue;
      double us = 1;
      for (const v1::CostPoint& point : CostCurveOf(peer)) {
        // Measured times may fall a little from rows to more rows.
        us = std::max(us, static_cast<double>(point.microseconds()));
        cost_curve.push_back({point.rows(), us});
      }
    }
    if (cost_curve.empty()) {
      return absl::FailedPreconditionError(
          "no target of the orchestrator has measured its passes: give --target-ms=MS or "
          "--cost-curve=ROWS:US,...");
    }
    if (absl::Status good = theory::PassTime::Create(cost_curve).status(); !good.ok()) {
      return absl::FailedPreconditionError(
          absl::StrCat("the target's cost curve makes no sense: ", good.message()));
    }
  }
  const v1::SpeculationTotals& speculation = measured.speculation();
  if (alphas.empty()) {
    if (speculation.accepted_tokens() + speculation.rejected_rounds() == 0) {
      return absl::FailedPreconditionError(
          "the orchestrator has tested no draft token yet: give --alpha=A, or send requests with "
          "a draft first");
    }
    alphas = {theory::EstimateAlpha(speculation.accepted_tokens(), speculation.rejected_rounds())};
  }
  if (!draft_us.has_value()) {
    if (speculation.draft_tokens() == 0) {
      return absl::FailedPreconditionError(
          "the orchestrator has got no draft token yet: give --draft-ms=MS, or send requests with "
          "a draft first");
    }
    draft_us = static_cast<double>(speculation.draft_us()) /
               static_cast<double>(speculation.draft_tokens());
  }
  return absl::OkStatus();
}

}  // namespace tandem::client
