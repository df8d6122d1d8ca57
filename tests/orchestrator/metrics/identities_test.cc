// The checker itself: what it finds, and in what it finds nothing.
#include "tests/orchestrator/metrics/identities.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/orchestrator/metrics/watched.h"

namespace tandem::orchestrator {
namespace {

using ::testing::HasSubstr;

// Each identity, broken by one number that was tampered with.
TEST(BrokenIdentities, FindsEach) {
  OrchestratorMetrics metrics;
  Watched request(metrics, SmallRequest(4, 1.0));
  ASSERT_TRUE(request.Run().status.ok());
  Watched running(metrics, SmallRequest(4));
  const testing::Scrape good = ScrapeOf(metrics);

  const auto doctored = [&](absl::string_view line, const testing::MetricLabels& labels,
                            double change) {
    testing::Scrape scrape = good;
    bool found = false;
    for (auto& [name, family] : scrape.families) {
      for (testing::MetricSample& sample : family.samples) {
        if (sample.name != absl::StrCat("tandem:", line) || sample.labels != labels) continue;
        sample.value += change;
        found = true;
      }
    }
    EXPECT_TRUE(found) << line;
    return absl::StrJoin(BrokenIdentities(scrape), "\n");
  };
  EXPECT_THAT(doctored("spec_decode_num_accepted_tokens_total", {}, 1000),
              HasSubstr("accepted <= drafted"));
  EXPECT_THAT(doctored("spec_decode_num_accepted_tokens_per_pos_total", {{"position", "0"}}, 1),
              HasSubstr("sum of accepted per position"));
  EXPECT_THAT(doctored("spec_decode_num_accepted_tokens_per_pos_total", {{"position", "9"}}, 1),
              HasSubstr("no position is accepted more often"));
  for (const char* name : {"generation_tokens_total", "cut_tokens_total"}) {
    EXPECT_THAT(doctored(name, {}, 1), HasSubstr("generation tokens = accepted + rounds - cut"));
  }
  EXPECT_THAT(doctored("rounds_total", {}, 1), HasSubstr("rounds = drafts + rounds without"));
  EXPECT_THAT(doctored("rounds_without_draft_total", {{"cause", "off"}}, 1),
              HasSubstr("rounds = drafts + rounds without"));
  EXPECT_THAT(doctored("spec_decode_num_draft_tokens_total", {}, -1000),
              HasSubstr("drafts <= drafted"));
  EXPECT_THAT(doctored("rejected_rounds_total", {}, 1000), HasSubstr("rejected rounds <= drafts"));
  EXPECT_THAT(doctored("one_hot_blocks_total", {}, 1000), HasSubstr("one-hot blocks <= drafts"));
  EXPECT_THAT(doctored("alpha_hat", {}, 1e-6), HasSubstr("alpha-hat ="));
  EXPECT_THAT(doctored("round_seconds_count", {}, 1), HasSubstr("count of round_seconds"));
  EXPECT_THAT(doctored("round_stage_seconds_count", {{"stage", "slot"}}, 1),
              HasSubstr("count of each stage"));
  EXPECT_THAT(doctored("round_stage_seconds_sum", {{"stage", "own"}}, 1e-3),
              HasSubstr("sum of the stages"));
  EXPECT_THAT(doctored("inter_token_latency_seconds_count", {}, 1),
              HasSubstr("count of inter_token_latency"));
  EXPECT_THAT(doctored("e2e_request_latency_seconds_count", {}, 1),
              HasSubstr("count of end-to-end times"));
  EXPECT_THAT(doctored("request_params_n_count", {}, 1), HasSubstr("request_params_n_count ="));
  EXPECT_THAT(doctored("request_generation_tokens_sum", {}, 1000),
              HasSubstr("tokens of succeeded requests"));
  EXPECT_THAT(doctored("request_prompt_tokens_sum", {}, 1000),
              HasSubstr("prompts of succeeded requests"));
  EXPECT_THAT(doctored("time_to_first_token_seconds_count", {}, -1),
              HasSubstr("succeeded <= with a first token"));
  EXPECT_THAT(doctored("time_to_first_token_seconds_count", {}, 2),
              HasSubstr("with a first token <= admitted"));
  EXPECT_THAT(doctored("time_to_first_token_seconds_count", {}, 1),
              HasSubstr("first tokens <= first rounds"));
  EXPECT_THAT(doctored("num_requests_running", {}, 1),
              HasSubstr("succeeded + running <= admitted"));
  EXPECT_THAT(doctored("num_requests_running", {}, -1), HasSubstr("admitted <= ended + running"));
  EXPECT_THAT(doctored("num_requests_running", {}, -2), HasSubstr("0 <= running"));
  EXPECT_THAT(doctored("num_requests_waiting", {}, -1), HasSubstr("0 <= waiting"));
}

}  // namespace
}  // namespace tandem::orchestrator
