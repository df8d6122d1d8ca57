#include "tests/orchestrator/metrics/identities.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace tandem::orchestrator {
namespace {

class Checker {
 public:
  explicit Checker(const testing::Scrape& scrape) : scrape_(scrape) {}

  double Sum(absl::string_view name) const { return scrape_.Sum(absl::StrCat("tandem:", name)); }
  double Of(absl::string_view name, const testing::MetricLabels& labels) const {
    return scrape_.Value(absl::StrCat("tandem:", name), labels);
  }
  void Equal(absl::string_view what, double left, double right, double slack = 0) {
    if (std::abs(left - right) > slack) Broken(what, left, right);
  }
  void AtMost(absl::string_view what, double left, double right) {
    if (left > right) Broken(what, left, right);
  }
  std::vector<std::string> Take() { return std::move(broken_); }

 private:
  void Broken(absl::string_view what, double left, double right) {
    broken_.push_back(absl::StrCat(what, ": ", left, ", ", right));
  }

  const testing::Scrape& scrape_;
  std::vector<std::string> broken_;
};

}  // namespace

std::vector<std::string> BrokenIdentities(const testing::Scrape& scrape) {
  Checker check(scrape);
  const double rounds = check.Sum("rounds_total");
  const double drafts = check.Sum("spec_decode_num_drafts_total");
  const double drafted = check.Sum("spec_decode_num_draft_tokens_total");
  const double accepted = check.Sum("spec_decode_num_accepted_tokens_total");
  const double tokens = check.Sum("generation_tokens_total");
  const double rejected = check.Sum("rejected_rounds_total");
  const double first_rounds = check.Of("rounds_without_draft_total", {{"cause", "first-round"}});
  const double succeeded = check.Sum("request_success_total");

  check.AtMost("accepted <= drafted", accepted, drafted);
  check.Equal("sum of accepted per position = accepted",
              check.Sum("spec_decode_num_accepted_tokens_per_pos_total"), accepted);
  for (int i = 1; i < 16; ++i) {
    const auto at = [&](int position) {
      return check.Of("spec_decode_num_accepted_tokens_per_pos_total",
                      {{"position", absl::StrCat(position)}});
    };
    check.AtMost("no position is accepted more often than the one before it", at(i), at(i - 1));
  }
  check.Equal("generation tokens = accepted + rounds - cut", tokens,
              accepted + rounds - check.Sum("cut_tokens_total"));
  check.Equal("rounds = drafts + rounds without draft", rounds,
              drafts + check.Sum("rounds_without_draft_total"));
  check.AtMost("drafts <= drafted", drafts, drafted);
  check.AtMost("rejected rounds <= drafts", rejected, drafts);
  check.AtMost("one-hot blocks <= drafts", check.Sum("one_hot_blocks_total"), drafts);
  check.Equal("alpha-hat = accepted / (accepted + rejected rounds)",
              accepted + rejected == 0 ? 0 : accepted / (accepted + rejected),
              check.Sum("alpha_hat"), 1e-12);

  check.Equal("count of round_seconds = rounds", check.Sum("round_seconds_count"), rounds);
  for (const char* stage : {"draft", "network", "slot", "queue", "device", "own"}) {
    check.Equal("count of each stage = rounds",
                check.Of("round_stage_seconds_count", {{"stage", stage}}), rounds);
  }
  const double seconds = check.Sum("round_seconds_sum");
  check.Equal("sum of the stages = sum of the rounds", check.Sum("round_stage_seconds_sum"),
              seconds, 1e-9 * std::max(1.0, seconds));
  check.Equal("count of the draft's queue = rounds", check.Sum("round_draft_queue_seconds_count"),
              rounds);
  check.AtMost("the draft's queue <= stage draft", check.Sum("round_draft_queue_seconds_sum"),
               check.Of("round_stage_seconds_sum", {{"stage", "draft"}}));
  check.Equal("count of inter_token_latency = tokens of later rounds",
              check.Sum("inter_token_latency_seconds_count"), tokens - first_rounds);

  check.Equal("count of end-to-end times = succeeded",
              check.Sum("e2e_request_latency_seconds_count"), succeeded);
  for (const char* name :
       {"request_prompt_tokens_count", "request_generation_tokens_count", "request_params_n_count",
        "request_params_max_tokens_count", "request_prefill_time_seconds_count",
        "request_decode_time_seconds_count"}) {
    check.Equal(absl::StrCat(name, " = succeeded"), check.Sum(name), succeeded);
  }
  check.AtMost("tokens of succeeded requests <= all", check.Sum("request_generation_tokens_sum"),
               tokens);
  check.AtMost("prompts of succeeded requests <= all", check.Sum("request_prompt_tokens_sum"),
               check.Sum("prompt_tokens_total"));
  const double first_tokens = check.Sum("time_to_first_token_seconds_count");
  const double admitted = check.Sum("request_queue_time_seconds_count");
  check.AtMost("succeeded <= with a first token", succeeded, first_tokens);
  check.AtMost("with a first token <= admitted", first_tokens, admitted);
  check.AtMost("first tokens <= first rounds", first_tokens, first_rounds);
  check.AtMost("succeeded + running <= admitted", succeeded + check.Sum("num_requests_running"),
               admitted);
  check.AtMost("admitted <= ended + running", admitted,
               succeeded + check.Sum("request_failure_total") + check.Sum("num_requests_running"));
  check.AtMost("0 <= running", 0, check.Sum("num_requests_running"));
  check.AtMost("0 <= waiting", 0, check.Sum("num_requests_waiting"));
  return check.Take();
}

}  // namespace tandem::orchestrator
