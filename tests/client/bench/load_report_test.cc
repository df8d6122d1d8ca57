// The statistics of many requests at once, with values that can be worked out by hand.
#include "client/bench/load_report.h"

#include "client/bench/load_json.h"

#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/bench/options.h"
#include "client/bench/records.h"
#include "common/base/json.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/json.h"

namespace tandem::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::vector<double> OneTo(int n) {
  std::vector<double> values;
  for (int i = n; i >= 1; --i) values.push_back(i);
  return values;
}

TEST(LoadDurationTest, SaysWhatNeedsMinutes) {
  EXPECT_EQ(LoadDurationText(27, absl::Seconds(4)), "27 runs of at least 4s each: 1m48s or more");
}

TEST(PercentileTest, IsTheNearestRank) {
  EXPECT_EQ(Percentile({7}, 0.01), 7);
  EXPECT_EQ(Percentile({7}, 1), 7);
  EXPECT_EQ(Percentile({1, 2, 3, 4}, 0.5), 2);  // two of four are not above it
  EXPECT_EQ(Percentile({1, 2, 3, 4}, 0.51), 3);
  EXPECT_EQ(Percentile({1, 2, 3, 4}, 1), 4);
  EXPECT_EQ(Percentile({1, 2, 3}, 0.5), 2);
}

TEST(PercentileTest, OfHundredAndOfTwenty) {
  const Percentiles hundred = PercentilesOf(OneTo(100));
  EXPECT_EQ(hundred.count, 100);
  EXPECT_EQ(hundred.p50, 50);
  EXPECT_EQ(hundred.p95, 95);
  EXPECT_EQ(hundred.p99, 99);
  const Percentiles twenty = PercentilesOf(OneTo(20));
  EXPECT_EQ(twenty.p95, 19);  // although 0.95 * 20 is above 19 in binary
  EXPECT_EQ(twenty.p99, 20);
  EXPECT_EQ(PercentilesOf({}).count, 0);
}

v1::Last Last(uint32_t rounds, uint32_t tokens, uint32_t accepted) {
  v1::Last last;
  last.mutable_usage()->set_completion_tokens(tokens);
  last.mutable_speculation()->set_rounds(rounds);
  last.mutable_speculation()->set_accepted_tokens(accepted);
  v1::Timing& timing = *last.mutable_timing();
  timing.set_draft_us(rounds * 1000);
  timing.set_verify_us(rounds * 4000);
  timing.set_queue_us(rounds * 1500);
  timing.set_target_us(rounds * 2000);
  timing.set_slot_us(rounds * 500);
  timing.set_cpu_us(rounds * 30);
  timing.set_admission_us(9000);
  return last;
}

LoadRun ARun(uint64_t tokens, double seconds, std::vector<double> first_token_ms) {
  LoadRun run;
  run.counted_s = seconds;
  run.tokens = tokens;
  for (double ms : first_token_ms) run.requests.push_back({ms, ms / 10, Last(10, 30, 20)});
  return run;
}

TEST(SummarizeTest, RatioIsOfTheSameTurn) {
  ModeRuns off{{0}, {ARun(100, 1, {1}), ARun(50, 1, {1}), ARun(300, 1, {1})}};
  ModeRuns two{{2}, {ARun(400, 2, {1}), ARun(75, 1, {1}), ARun(300, 1, {1})}};
  const LoadSummary summary = Summarize(two, &off);
  ASSERT_TRUE(summary.ratio.has_value());
  EXPECT_DOUBLE_EQ(summary.ratio->min, 1);
  EXPECT_DOUBLE_EQ(summary.ratio->median, 1.5);  // not 200 / 100, the ratio of the medians
  EXPECT_DOUBLE_EQ(summary.ratio->max, 2);
  ASSERT_TRUE(summary.mean_ratio.has_value());
  EXPECT_NEAR(summary.mean_ratio->mean, 1.4422, 1e-3);
  EXPECT_NEAR(summary.mean_ratio->low, 0.6072, 1e-3);  // by Student's t of two degrees of freedom
  EXPECT_NEAR(summary.mean_ratio->high, 3.4257, 1e-3);
  EXPECT_DOUBLE_EQ(summary.tokens_per_second.median, 200);
  EXPECT_FALSE(Summarize(off, &off).ratio.has_value());
  EXPECT_FALSE(Summarize(two, nullptr).ratio.has_value());
}

// Ten factors around 1, of 5 % each way: t of nine degrees of freedom is 2.2622.
TEST(SummarizeTest, TheIntervalOfAMeanRatioNeedsThreeRunsAndPositiveOnes) {
  std::vector<double> factors;
  for (int i = 0; i < 5; ++i) factors.insert(factors.end(), {1.05, 1 / 1.05});
  const std::optional<MeanFactor> mean = MeanFactorOf(factors);
  ASSERT_TRUE(mean.has_value());
  EXPECT_NEAR(mean->mean, 1, 1e-9);
  EXPECT_NEAR(mean->high, std::exp(2.2622 * std::log(1.05) / 3), 1e-4);
  EXPECT_NEAR(mean->low * mean->high, 1, 1e-9);
  EXPECT_FALSE(MeanFactorOf({1, 1}).has_value());
  EXPECT_FALSE(MeanFactorOf({1, 0, 1}).has_value());
}

TEST(SummarizeTest, PercentilesAreOfAllRequestsNotOfRuns) {
  // The mean of the runs' medians would be 55; the median of all is 2.
  ModeRuns runs{{2}, {ARun(1, 1, {1, 2, 2, 2}), ARun(1, 1, {100})}};
  const LoadSummary summary = Summarize(runs, nullptr);
  EXPECT_EQ(summary.first_token_ms.count, 5);
  EXPECT_EQ(summary.first_token_ms.p50, 2);
  EXPECT_EQ(summary.first_token_ms.p95, 100);
  EXPECT_DOUBLE_EQ(summary.per_token_ms.p50, 0.2);
}

TEST(SummarizeTest, ARequestThatCameInOneDeltaHasNoTimeBetweenTokens) {
  LoadRun run = ARun(1, 1, {5, 6});
  run.requests[0].per_token_ms = std::nullopt;
  const LoadSummary summary = Summarize({{2}, {run}}, nullptr);
  EXPECT_EQ(summary.first_token_ms.count, 2);
  EXPECT_EQ(summary.per_token_ms.count, 1);
}

TEST(SummarizeTest, ARoundsMeansAreWeightedByRounds) {
  LoadRun run = ARun(1, 1, {5});
  run.requests.push_back({5, 1, Last(30, 30, 0)});
  v1::AcceptanceRecord& record = *run.requests[0].last.mutable_speculation();
  record.set_batch_rows(400);
  record.set_batch_sequences(80);
  const LoadSummary summary = Summarize({{4}, {run}}, nullptr);
  EXPECT_EQ(summary.requests, 2u);
  EXPECT_EQ(summary.rounds, 40u);
  EXPECT_DOUBLE_EQ(summary.accepted_per_round, 0.5);
  EXPECT_DOUBLE_EQ(summary.tokens_per_round, 1.5);
  EXPECT_DOUBLE_EQ(summary.draft_ms, 1);
  EXPECT_DOUBLE_EQ(summary.verify_ms, 4);
  EXPECT_DOUBLE_EQ(summary.queue_ms, 1.5);
  EXPECT_DOUBLE_EQ(summary.target_ms, 2);
  EXPECT_DOUBLE_EQ(summary.slot_ms, 0.5);
  EXPECT_DOUBLE_EQ(summary.cpu_us, 30);
  EXPECT_DOUBLE_EQ(summary.admission_ms, 9);
  EXPECT_DOUBLE_EQ(*summary.round_rows, 10);
  EXPECT_DOUBLE_EQ(*summary.round_sequences, 2);
}

TEST(SummarizeTest, RoundsThatMissedTheirDraft) {
  LoadRun run = ARun(1, 1, {5, 5});  // two requests of ten rounds
  for (RequestRecord& request : run.requests) {
    v1::AcceptanceRecord& record = *request.last.mutable_speculation();
    v1::CausedRounds& first = *record.add_rounds_without_draft();
    first.set_cause("first-round");
    first.set_rounds(1);
    v1::CausedRounds& none = *record.add_rounds_without_draft();
    none.set_cause("policy-zero");
    none.set_rounds(2);
    v1::CausedRounds& late = *record.add_rounds_without_draft();
    late.set_cause("draft-late");
    late.set_rounds(3);
  }
  const ModeRuns runs{{4}, {run}};
  const LoadSummary summary = Summarize(runs, nullptr);
  EXPECT_EQ(summary.rounds_without_draft.at("draft-late"), 6u);
  EXPECT_DOUBLE_EQ(summary.undrafted_share, 6.0 / 14);
  EXPECT_THAT(LoadTableText({1, {runs}}), HasSubstr("K=4: 6 rounds without a draft: draft-late"));
}

TEST(SummarizeTest, DeviceCountersAreSummedBeforeTheyAreDivided) {
  LoadRun one = ARun(1, 1, {1}), other = ARun(1, 1, {1});
  one.device = DeviceUse{10, 100, 20, 900, 100};
  other.device = DeviceUse{30, 60, 60, 100, 900};
  const LoadSummary summary = Summarize({{0}, {one, other}}, nullptr);
  EXPECT_DOUBLE_EQ(*summary.pass_rows, 4);  // 160 / 40, not (10 + 2) / 2
  EXPECT_DOUBLE_EQ(*summary.pass_sequences, 2);
  EXPECT_DOUBLE_EQ(*summary.device_share, 0.5);
  other.device = std::nullopt;  // one that is not known makes the whole unknown
  EXPECT_FALSE(Summarize({{0}, {one, other}}, nullptr).pass_rows.has_value());
}

v1::Peer& AddPeer(v1::DescribeReply& reply, v1::Peer::Role role, uint64_t passes) {
  v1::Peer& peer = *reply.add_peers();
  peer.set_role(role);
  peer.mutable_load()->set_passes(passes);
  peer.mutable_load()->set_pass_rows(passes * 3);
  peer.mutable_load()->set_pass_sequences(passes * 2);
  peer.mutable_load()->set_busy_us(passes * 10);
  peer.mutable_load()->set_idle_us(5);
  return peer;
}

TEST(DeviceUseTest, SumsTheTargetsAlone) {
  v1::DescribeReply reply;
  EXPECT_FALSE(DeviceUseOf(reply).has_value());
  AddPeer(reply, v1::Peer::ROLE_DRAFT, 1000);
  EXPECT_FALSE(DeviceUseOf(reply).has_value());
  AddPeer(reply, v1::Peer::ROLE_TARGET, 4);
  AddPeer(reply, v1::Peer::ROLE_TARGET, 6);
  const auto use = DeviceUseOf(reply);
  ASSERT_TRUE(use.has_value());
  EXPECT_EQ(use->passes, 10u);
  EXPECT_EQ(use->pass_rows, 30u);
  EXPECT_EQ(use->pass_sequences, 20u);
  EXPECT_EQ(use->busy_us, 100u);
  EXPECT_EQ(use->idle_us, 10u);
}

TEST(DeviceUseTest, ATargetThatCountsNothingIsUnknown) {
  v1::DescribeReply reply;
  AddPeer(reply, v1::Peer::ROLE_TARGET, 0).mutable_load()->set_free_slots(3);
  EXPECT_FALSE(DeviceUseOf(reply).has_value());
}

TEST(DeviceUseTest, DifferenceOfARestartedTargetIsUnknown) {
  const DeviceUse before{10, 30, 20, 100, 10}, after{15, 40, 26, 150, 60};
  const auto use = Difference(before, after);
  ASSERT_TRUE(use.has_value());
  EXPECT_EQ(use->passes, 5u);
  EXPECT_EQ(use->pass_rows, 10u);
  EXPECT_EQ(use->pass_sequences, 6u);
  EXPECT_EQ(use->busy_us, 50u);
  EXPECT_EQ(use->idle_us, 50u);
  EXPECT_FALSE(Difference(after, before).has_value());
  EXPECT_FALSE(Difference(std::nullopt, after).has_value());
  EXPECT_FALSE(Difference(before, std::nullopt).has_value());
}

LoadTable Table() {
  LoadTable table;
  table.concurrency = 8;
  table.modes = {{{0}, {ARun(100, 1, {1, 2}), ARun(200, 1, {3})}},
                 {{4}, {ARun(150, 1, {1}), ARun(160, 1, {2})}}};
  table.modes[1].runs[0].failures["UNAVAILABLE"] = {2, "gone"};
  table.modes[1].runs[1].failures["UNAVAILABLE"] = {1, "gone again"};
  return table;
}

TEST(LoadReportTest, NothingThatFailedIsHidden) {
  EXPECT_EQ(CountFailures({Table(), Table()}), 6u);
  const std::string text = LoadTableText(Table());
  EXPECT_THAT(text, HasSubstr("K=4: 3 x UNAVAILABLE, the first: gone\n"));
  EXPECT_THAT(text, HasSubstr("0.80   1.15   1.50"));
}

TEST(LoadReportTest, WhatNobodyCountsIsADash) {
  LoadTable table = Table();
  EXPECT_THAT(LoadTableText(table), HasSubstr("-                     -\n"));
  for (ModeRuns& mode : table.modes) {
    for (LoadRun& run : mode.runs) run.device = DeviceUse{10, 50, 20, 900, 100};
  }
  EXPECT_THAT(LoadTableText(table), HasSubstr("2.00    5.00"));
  EXPECT_THAT(LoadTableText(table), HasSubstr("90.0 %"));
}

TEST(LoadReportTest, RatiosOfAllConcurrencies) {
  EXPECT_THAT(RatioText({Table()}),
              HasSubstr("          8            150    0.80   1.15   1.50\n"));
  LoadTable without = Table();
  without.modes.erase(without.modes.begin());
  EXPECT_EQ(RatioText({without}), "");
  EXPECT_THAT(LoadTableText(without), Not(HasSubstr("1.15")));
}

TEST(LoadReportTest, Json) {
  const base::JsonValue table = tandem::testing::ParseJson(LoadTablesJson({Table()}))["load"][0];
  EXPECT_EQ(table["concurrency"].Number(), 8);
  const base::JsonValue off = table["modes"]["off"];
  EXPECT_EQ(off["first_token_ms"]["p99"].Number(), 3);
  EXPECT_TRUE(off.Has("ratio_to_off") && off["ratio_to_off"].IsNull());
  EXPECT_TRUE(off.Has("device_share") && off["device_share"].IsNull());
  const base::JsonValue four = table["modes"]["K=4"];
  EXPECT_EQ(four["ratio_to_off"]["max"].Number(), 1.5);
  EXPECT_TRUE(off.Has("mean_ratio_to_off") && off["mean_ratio_to_off"].IsNull());
  EXPECT_EQ(four["failures"]["UNAVAILABLE"]["count"].Number(), 3);
  EXPECT_EQ(four["failures"]["UNAVAILABLE"]["first_message"].String(), "gone");
}

TEST(IdleReportTest, DifferencesArePairByPair) {
  const std::vector<IdlePair> pairs = {{5, 4}, {60, 2}, {3, 4}};
  EXPECT_THAT(IdleText(pairs, 2), HasSubstr("after 2.0 s of silence"));
  EXPECT_THAT(IdleText(pairs, 2), HasSubstr("-1.000    1.000   58.000"));
  const base::JsonValue json = tandem::testing::ParseJson(IdleJson(pairs, 2));
  EXPECT_EQ(json["idle"]["difference_ms"]["max"].Number(), 58);
  EXPECT_EQ(json["idle"]["pairs"].size(), 3u);
}

// What the flags say, or the error.
std::string Refusal(std::vector<std::string> args) {
  BenchOptions options;
  flags::FlagSet flags("tandem bench", "");
  options.AddTo(flags);
  absl::Status status = flags.Parse(args);
  if (status.ok()) status = options.Validate();
  return std::string(status.message());
}

TEST(LoadOptionsTest, Concurrency) {
  EXPECT_EQ(ParseConcurrency("1,8,4096").value(), (std::vector<uint32_t>{1, 8, 4096}));
  for (const char* bad : {"", "0", "4097", "1,,2", "1, 2", "-1", "1,x", "99999999999"}) {
    EXPECT_THAT(Refusal({std::string("--concurrency=") + bad}),
                HasSubstr("must be whole numbers, 1 to 4096"));
  }
  EXPECT_THAT(Refusal({"--concurrency=4,4"}), HasSubstr("must rise"));
}

TEST(LoadOptionsTest, Modes) {
  const auto modes = ParseModes("off,2,auto");
  ASSERT_TRUE(modes.ok()) << modes.status();
  EXPECT_EQ((*modes)[0].Name(), "off");
  EXPECT_EQ((*modes)[1].Name(), "K=2");
  EXPECT_EQ((*modes)[2].Name(), "auto");
  v1::GenerateRequest request;
  (*modes)[1].Apply(request);
  EXPECT_EQ(request.speculation().fixed(), 2u);
  (*modes)[2].Apply(request);
  EXPECT_TRUE(request.speculation().auto_());
  for (const char* bad : {"", "0", "17", "on", "2,", "off,3x"}) {
    EXPECT_THAT(Refusal({"--concurrency=1", std::string("--modes=") + bad}),
                HasSubstr("must be off, auto or 1 to 16"));
  }
  EXPECT_THAT(Refusal({"--concurrency=1", "--modes=2,off,2"}), HasSubstr("K=2 is listed twice"));
}

TEST(LoadOptionsTest, FlagsThatDoNotGoTogether) {
  EXPECT_THAT(Refusal({"--modes=2"}), HasSubstr("--modes needs --concurrency=N"));
  EXPECT_THAT(Refusal({"--concurrency=2", "--draft-tokens=2"}), HasSubstr("--draft-tokens=2"));
  EXPECT_THAT(Refusal({"--concurrency=2", "--idle"}), HasSubstr("give one"));
  EXPECT_THAT(Refusal({"--concurrency=2", "--window=1ms"}), HasSubstr("100ms to 1h"));
  EXPECT_THAT(Refusal({"--idle", "--silence=1h"}), HasSubstr("1ms to 10m"));
  EXPECT_THAT(Refusal({"--against=17"}), HasSubstr("--against=17: must be off, auto, or 1 to 16"));
  EXPECT_THAT(Refusal({"--against=auto"}), HasSubstr("equals --draft-tokens"));
  EXPECT_THAT(Refusal({"--against=3", "--draft-tokens=3"}), HasSubstr("name another"));
  EXPECT_THAT(Refusal({"--concurrency=2", "--against=3"}), HasSubstr("list both in --modes"));
  EXPECT_THAT(Refusal({"--concurrency=2", "--against=off"}), HasSubstr("list both in --modes"));
  EXPECT_THAT(Refusal({"--idle", "--against=3"}),
              HasSubstr("--against and --idle are two benchmarks"));
  EXPECT_THAT(Refusal({"--draft-tokens=0"}), HasSubstr("--draft-tokens=0"));
  EXPECT_THAT(Refusal({"--draft-tokens=0", "--against=3"}), HasSubstr("requests with a draft"));
  EXPECT_EQ(Refusal({"--against=3"}), "");
  EXPECT_EQ(Refusal({"--idle", "--draft-tokens=0"}), "");
  EXPECT_EQ(Refusal({"--concurrency=2"}), "");
}

// An orchestrator refuses a request that has no draft and says how it drafts.
TEST(BenchMode, WithoutADraftNothingIsSaidOfOne) {
  v1::GenerateRequest request;
  v1::SpeculationOptions& speculation = *request.mutable_speculation();
  speculation.set_draft_temperature(1);
  speculation.set_draft_nodes(8);
  speculation.set_draft_min_confidence(0.5);
  speculation.set_prepare(4);
  speculation.set_length_policy(v1::LENGTH_POLICY_HEURISTIC);
  v1::GenerateRequest automatic = request, drafted = request;
  BenchMode{}.Apply(automatic);
  EXPECT_EQ(automatic.speculation().length_policy(), v1::LENGTH_POLICY_HEURISTIC);
  BenchMode{4}.Apply(drafted);
  EXPECT_EQ(drafted.speculation().length_policy(), v1::LENGTH_POLICY_UNSPECIFIED);
  EXPECT_EQ(drafted.speculation().draft_nodes(), 8u);
  EXPECT_EQ(drafted.speculation().prepare(), 4u);
  EXPECT_EQ(drafted.speculation().fixed(), 4u);
  BenchMode{0}.Apply(request);
  v1::GenerateRequest plain;
  plain.mutable_speculation()->set_fixed(0);
  EXPECT_EQ(request.DebugString(), plain.DebugString());
}

}  // namespace
}  // namespace tandem::client
