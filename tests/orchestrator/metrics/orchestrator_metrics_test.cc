// What is counted, exactly, after rounds and requests that a script decides.
#include "orchestrator/metrics/orchestrator_metrics.h"

#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/concurrency/instant.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "orchestrator/draft/choice/common_drafters.h"
#include "orchestrator/generate/last_message.h"
#include "orchestrator/metrics/families.h"
#include "prometheus/text_serializer.h"
#include "tests/orchestrator/metrics/watched.h"
#include "tests/support/paths.h"

namespace tandem::orchestrator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

// A draft that is always right: 1 + 6 * 5 + 1 tokens.
TEST(OrchestratorMetrics, RoundsOfAPerfectDraft) {
  OrchestratorMetrics metrics;
  HarnessOptions options;
  options.draft_noise = 0;
  Watched request(metrics, SmallRequest(4), options);
  ASSERT_TRUE(request.Run().status.ok());
  const Totals totals = metrics.totals();
  EXPECT_EQ(totals.rounds, 8u);
  EXPECT_EQ(totals.drafts, 6u);
  EXPECT_EQ(totals.draft_tokens, 24u);
  EXPECT_EQ(totals.accepted_tokens, 24u);
  EXPECT_THAT(totals.accepted_at, ElementsAre(6, 6, 6, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_EQ(totals.rejected_rounds, 0u);
  EXPECT_EQ(totals.generation_tokens, 32u);
  EXPECT_EQ(totals.cut_tokens, 0u);
  EXPECT_EQ(totals.rounds_without_draft[static_cast<int>(PlainCause::kFirstRound)], 1u);
  EXPECT_EQ(totals.rounds_without_draft[static_cast<int>(PlainCause::kPolicyZero)], 1u);
  EXPECT_EQ(totals.inter_token_latency.count(), 31u);
  EXPECT_EQ(totals.time_to_first_token.count(), 1u);
  EXPECT_EQ(totals.prompt_tokens, request.harness->request.prompt_tokens());

  const testing::Scrape scrape = ScrapeOf(metrics);
  EXPECT_EQ(scrape.Value("tandem:alpha_hat"), 1);
  EXPECT_EQ(scrape.Value("tandem:request_success_total", {{"finished_reason", "length"}}), 1);
  EXPECT_EQ(scrape.Value("tandem:request_success_total", {{"finished_reason", "stop"}}), 0);
  EXPECT_EQ(scrape.Value("tandem:request_generation_tokens_sum"), 32);
  EXPECT_EQ(scrape.Value("tandem:request_params_max_tokens_sum"), 32);
  EXPECT_EQ(scrape.Value("tandem:request_params_n_sum"), 1);
  EXPECT_EQ(scrape.Value("tandem:request_queue_time_seconds_sum"), 0.005);
  EXPECT_EQ(scrape.Value("tandem:e2e_request_latency_seconds_sum"),
            absl::ToDoubleSeconds(request.harness->clock.Now() - kArrived));
}

// The record that the client gets and the metrics are counted at different places.
TEST(OrchestratorMetrics, AsTheRequestsOwnRecord) {
  for (const double noise : {0.3, 1.0, 5.0}) {
    OrchestratorMetrics metrics;
    HarnessOptions options;
    options.draft_noise = noise;
    Watched request(metrics, SmallRequest(4, 1.0), options);
    const Ending& ending = request.Run();
    ASSERT_TRUE(ending.status.ok());
    const Totals totals = metrics.totals();
    EXPECT_EQ(totals.rounds, ending.counts.rounds);
    EXPECT_EQ(totals.draft_tokens, ending.counts.draft_tokens);
    EXPECT_EQ(totals.accepted_tokens, ending.counts.accepted_tokens);
    EXPECT_EQ(totals.rejected_rounds, ending.counts.rejected_rounds);
    EXPECT_GT(totals.rejected_rounds, 0u);
    EXPECT_EQ(totals.generation_tokens, ending.output_tokens);
    for (int i = 0; i < kPlainCauses; ++i) {
      EXPECT_EQ(totals.rounds_without_draft[i], ending.counts.plain_rounds[i]);
    }
    EXPECT_EQ(totals.stage_seconds[0].sum(), absl::ToInt64Nanoseconds(ending.times.stages.draft));
    EXPECT_EQ(totals.stage_seconds[1].sum(), absl::ToInt64Nanoseconds(ending.times.stages.network));
    EXPECT_EQ(totals.stage_seconds[2].sum(), absl::ToInt64Nanoseconds(ending.times.stages.slot));
    EXPECT_EQ(totals.stage_seconds[3].sum(), absl::ToInt64Nanoseconds(ending.times.stages.queue));
    EXPECT_EQ(totals.stage_seconds[4].sum(), absl::ToInt64Nanoseconds(ending.times.stages.device));
    EXPECT_EQ(totals.stage_seconds[5].sum(), absl::ToInt64Nanoseconds(ending.times.stages.own));
    ScrapeOf(metrics);
  }
}

// A stop string in the middle of a block: what was accepted behind it is cut, and counted as
// accepted.
TEST(OrchestratorMetrics, DraftersAsTheRequestsOwnRecord) {
  OrchestratorMetrics metrics;
  CommonDrafters drafters(/*always=*/true);
  HarnessOptions options;
  options.draft_noise = 1;
  options.drafters = &drafters;
  GenerationRequest wanted = SmallRequest(3, 1.0);
  wanted.drafters = {"a", "b"};
  Watched request(metrics, wanted, options);
  const Ending& ending = request.Run();
  ASSERT_TRUE(ending.status.ok());
  const v1::Last last = MakeLast(wanted, {ending});
  ASSERT_EQ(last.speculation().drafters_size(), 2);
  const testing::Scrape scrape = ScrapeOf(metrics);
  double reasons = 0;
  for (const v1::DrafterRecord& one : last.speculation().drafters()) {
    EXPECT_GT(one.rounds(), 0u) << one.drafter();
    const testing::MetricLabels labels = {{"drafter", one.drafter()}};
    EXPECT_EQ(scrape.Value("tandem:drafter_rounds_total", labels), one.rounds());
    EXPECT_EQ(scrape.Value("tandem:drafter_draft_tokens_total", labels), one.draft_tokens());
    EXPECT_EQ(scrape.Value("tandem:drafter_accepted_tokens_total", labels), one.accepted_tokens());
    EXPECT_EQ(scrape.Value("tandem:drafter_generation_tokens_total", labels), one.tokens());
    for (const v1::CausedRounds& caused : one.reasons()) reasons += caused.rounds();
  }
  EXPECT_EQ(scrape.Value("tandem:drafter_rounds_total", {{"drafter", "other"}}), 0);
  EXPECT_EQ(scrape.Sum("tandem:drafter_chosen_rounds_total"), reasons);
}

// Names that clients send do not make the page grow.
TEST(OrchestratorMetrics, DraftersBeyondTheBoundShareOneSeries) {
  OrchestratorMetrics metrics;
  for (size_t i = 0; i < 3 * kMaxDrafters; ++i) {
    GenerationRequest wanted = SmallRequest(3, 1.0);
    wanted.drafters = {absl::StrCat("d", i)};
    metrics.Watcher()({kArrived, ""})->OnAccepted(kArrived, wanted);
  }
  EXPECT_EQ(metrics.totals().drafter_names.size(), kMaxDrafters);
}

TEST(OrchestratorMetrics, TokensBehindAStopStringAreCut) {
  HarnessOptions options;
  options.draft_noise = 0;
  LoopHarness whole(SmallRequest(4), options);
  whole.Start();
  whole.Run();
  // Four letters that come nowhere sooner, and do not end with a block.
  for (size_t end = 4; end < whole.reader.text.size(); ++end) {
    const std::string stop = whole.reader.text.substr(end - 3, 4);
    if ((end - 1) % 5 == 4 || whole.reader.text.find(stop) != end - 3) continue;
    OrchestratorMetrics metrics;
    GenerationRequest wanted = SmallRequest(4);
    wanted.stop_strings = {stop};
    Watched request(metrics, wanted, options);
    const Ending& ending = request.Run();
    ASSERT_EQ(ending.finish, Finish::kStop);
    ASSERT_EQ(ending.output_tokens, end + 1);
    const Totals totals = metrics.totals();
    EXPECT_EQ(totals.generation_tokens, end + 1);
    EXPECT_GT(totals.cut_tokens, 0u);
    EXPECT_EQ(totals.cut_tokens, totals.accepted_tokens + totals.rounds - (end + 1));
    EXPECT_EQ(
        ScrapeOf(metrics).Value("tandem:request_success_total", {{"finished_reason", "stop"}}), 1);
    return;
  }
  FAIL() << "no such stop string in " << whole.reader.text;
}

TEST(OrchestratorMetrics, QueuePrefillAndDecodeAreTheWholeRequest) {
  OrchestratorMetrics metrics;
  Watched request(metrics, SmallRequest(4));
  request.harness->target.step_time = absl::Milliseconds(10);
  request.harness->draft.on_advance = [&](const DraftAdvance&, DraftReplyBlock& block) {
    request.harness->clock.Advance(absl::Milliseconds(5));
    block.at_draft = absl::Milliseconds(4);
    block.queued = absl::Milliseconds(3);
    return FakeDraft::Do::kAnswer;
  };
  ASSERT_TRUE(request.Run().status.ok());
  const testing::Scrape scrape = ScrapeOf(metrics);
  const double prefill = scrape.Value("tandem:request_prefill_time_seconds_sum");
  const double decode = scrape.Value("tandem:request_decode_time_seconds_sum");
  const double rounds = scrape.Value("tandem:rounds_total");
  EXPECT_GT(rounds, 2);
  EXPECT_GT(decode, prefill);
  EXPECT_NEAR(prefill + decode + scrape.Value("tandem:request_queue_time_seconds_sum"),
              scrape.Value("tandem:e2e_request_latency_seconds_sum"), 1e-9);
  const double drafts = scrape.Value("tandem:spec_decode_num_drafts_total");
  EXPECT_GT(drafts, 0);
  EXPECT_NEAR(scrape.Value("tandem:round_draft_queue_seconds_sum"), 0.003 * drafts, 1e-9);
}

TEST(OrchestratorMetrics, CausesOfRoundsWithoutADraft) {
  OrchestratorMetrics metrics;
  {
    HarnessOptions options;
    options.with_draft = false;
    Watched request(metrics, SmallRequest(4), options);
    ASSERT_TRUE(request.Run().status.ok());
  }
  {
    Watched request(metrics, SmallRequest(4));
    int advances = 0;
    request.harness->draft.on_advance = [&](const DraftAdvance& advance, DraftReplyBlock& block) {
      if (++advances == 2) {
        block = {};
        block.round = advance.round;
        block.status = DraftReplyBlock::Status::kStale;
      }
      return FakeDraft::Do::kAnswer;
    };
    ASSERT_TRUE(request.Run().status.ok());
  }
  {
    Watched request(metrics, SmallRequest(4));
    request.harness->draft.refuses = true;
    ASSERT_TRUE(request.Run().status.ok());
  }
  const testing::Scrape scrape = ScrapeOf(metrics);
  const auto rounds = [&](const char* cause) {
    return scrape.Value("tandem:rounds_without_draft_total", {{"cause", cause}});
  };
  EXPECT_EQ(rounds("first-round"), 3);
  EXPECT_EQ(rounds("off"), 31);
  EXPECT_EQ(rounds("draft-stale"), 1);
  EXPECT_EQ(scrape.Value("tandem:stale_blocks_total"), 1);
  EXPECT_EQ(rounds("draft-refused"), 30) << "there is no room for a candidate in the last one";
  EXPECT_EQ(rounds("draft-lost"), 0);
}

TEST(OrchestratorMetrics, ReplaysOfALostTargetAndAReconnectedDraft) {
  OrchestratorMetrics metrics;
  Watched request(metrics, SmallRequest(4));
  int steps = 0;
  request.harness->target.on_step = [&](const VerifyStep&, VerifyReply&) {
    if (++steps == 3) {
      request.harness->target.Disconnect();
      request.harness->target.Connect();
      return FakeTarget::Do::kDrop;
    }
    if (steps == 5) request.harness->draft.Break();
    return FakeTarget::Do::kAnswer;
  };
  const Ending& ending = request.Run();
  ASSERT_TRUE(ending.status.ok()) << ending.status;
  EXPECT_EQ(ending.counts.target_replays, 1u);
  const testing::Scrape scrape = ScrapeOf(metrics);
  EXPECT_EQ(scrape.Value("tandem:target_replays_total"), 1);
  EXPECT_EQ(scrape.Value("tandem:draft_reconnections_total"), ending.counts.draft_reconnections);
}

TEST(OrchestratorMetrics, WaitingRunningAndTheEndsOfRequests) {
  OrchestratorMetrics metrics;
  const GenerationRequest wanted = SmallRequest(4);
  const auto gauges = [&] {
    const testing::Scrape scrape = ScrapeOf(metrics);
    return std::make_pair(scrape.Value("tandem:num_requests_waiting"),
                          scrape.Value("tandem:num_requests_running"));
  };
  const auto end = [&](RequestObserver& request, absl::Status status, bool checked) {
    request.OnEnded({concurrency::Instant(),
                     concurrency::Instant(absl::Seconds(1)),
                     std::move(status),
                     "",
                     checked ? &wanted : nullptr,
                     {}});
  };
  EXPECT_EQ(gauges(), std::make_pair(0.0, 0.0));
  const WatchRequest watch = metrics.Watcher();
  auto refused = watch({concurrency::Instant(), ""});
  end(*refused, absl::InvalidArgumentError("max_tokens is 0"), false);
  auto turned_away = watch({concurrency::Instant(), ""});
  turned_away->OnAccepted(concurrency::Instant(), wanted);
  EXPECT_EQ(gauges(), std::make_pair(1.0, 0.0));
  end(*turned_away, absl::ResourceExhaustedError("the line is full"), true);
  auto cancelled = watch({concurrency::Instant(), ""});
  cancelled->OnAccepted(concurrency::Instant(), wanted);
  cancelled->OnAdmitted(concurrency::Instant(), v1::Started());
  EXPECT_EQ(gauges(), std::make_pair(0.0, 1.0));
  end(*cancelled, absl::CancelledError("the client went away"), true);
  EXPECT_EQ(gauges(), std::make_pair(0.0, 0.0));
  const testing::Scrape scrape = ScrapeOf(metrics);
  for (const auto& [code, cause] :
       {std::pair{"INVALID_ARGUMENT", "client"}, std::pair{"RESOURCE_EXHAUSTED", "load"},
        std::pair{"CANCELLED", "client"}}) {
    EXPECT_EQ(scrape.Value("tandem:request_failure_total", {{"code", code}, {"cause", cause}}), 1);
  }
  EXPECT_EQ(scrape.Sum("tandem:request_failure_total"), 3);
  EXPECT_EQ(scrape.Sum("tandem:request_success_total"), 0);
  EXPECT_EQ(scrape.Sum("tandem:request_queue_time_seconds_count"), 1);
}

// The alerts page for "server" alone: no code that a client can bring about is among these.
TEST(OrchestratorMetrics, EachFailureHasWhoCausedIt) {
  std::map<std::string, std::set<std::string>> codes;
  for (const prometheus::MetricFamily& family : Families(Totals())) {
    if (family.name != "tandem:request_failure_total") continue;
    for (const prometheus::ClientMetric& series : family.metric) {
      ASSERT_EQ(series.label.size(), 2u);
      codes[series.label[1].value].insert(series.label[0].value);
    }
  }
  EXPECT_THAT(
      codes,
      ElementsAre(
          Pair("client", UnorderedElementsAre("CANCELLED", "INVALID_ARGUMENT", "NOT_FOUND",
                                              "ALREADY_EXISTS", "PERMISSION_DENIED",
                                              "UNAUTHENTICATED", "OUT_OF_RANGE", "ABORTED")),
          Pair("load", UnorderedElementsAre("RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED")),
          Pair("server", UnorderedElementsAre("UNKNOWN", "FAILED_PRECONDITION", "UNIMPLEMENTED",
                                              "INTERNAL", "UNAVAILABLE", "DATA_LOSS"))));
}

// What is exported and what operators read of it, name by name.
TEST(OrchestratorMetrics, TheOperatorsPageHasThemAll) {
  std::ifstream file(tandem::testing::SourcePath("docs/observability.md"));
  const std::string page((std::istreambuf_iterator<char>(file)), {});
  ASSERT_THAT(page, HasSubstr("## Metrics"));
  std::vector<prometheus::MetricFamily> families = Families(Totals());
  for (prometheus::MetricFamily& family : PeerFamilies({}, {}))
    families.push_back(std::move(family));
  for (const prometheus::MetricFamily& family : families) {
    absl::string_view name = family.name;
    ASSERT_TRUE(absl::ConsumePrefix(&name, "tandem:")) << name;
    EXPECT_THAT(page, HasSubstr(absl::StrCat("`", name, "`")));
    EXPECT_GE(family.help.size(), 20u) << name;
  }
}

TEST(OrchestratorMetrics, Peers) {
  std::vector<v1::Peer> peers(3);
  peers[0].set_role(v1::Peer::ROLE_TARGET);
  peers[0].set_address("10.0.0.1:50");
  peers[0].set_ready(true);
  peers[1].set_role(v1::Peer::ROLE_DRAFT);
  peers[1].set_address("10.0.0.2:50");
  peers[2] = peers[0];  // under another name, which it leaves: no series is there twice
  peers[2].set_ready(false);
  const auto scrape = testing::ParseMetrics(prometheus::TextSerializer().Serialize(PeerFamilies(
      peers,
      {{{v1::Peer::ROLE_DRAFT, "10.0.0.2:50"}, 3}, {{v1::Peer::ROLE_DRAFT, "10.0.0.9:50"}, 1}})));
  ASSERT_TRUE(scrape.ok()) << scrape.status();
  EXPECT_EQ(scrape->Value("tandem:peer_up", {{"peer", "10.0.0.1:50"}, {"kind", "target"}}), 1);
  EXPECT_EQ(scrape->Value("tandem:peer_up", {{"peer", "10.0.0.2:50"}, {"kind", "draft"}}), 0);
  EXPECT_EQ(
      scrape->Value("tandem:peer_refused_total", {{"peer", "10.0.0.1:50"}, {"kind", "target"}}), 0);
  EXPECT_EQ(
      scrape->Value("tandem:peer_refused_total", {{"peer", "10.0.0.2:50"}, {"kind", "draft"}}), 3);
}

TEST(OrchestratorMetrics, WhatClientsHaveNotRead) {
  UnreadCounts counts;
  counts.calls = 3;
  counts.bytes = 70'000;
  counts.refused = 5;
  counts.dropped = {7, 11};
  const auto scrape =
      testing::ParseMetrics(prometheus::TextSerializer().Serialize(UnreadFamilies(counts)));
  ASSERT_TRUE(scrape.ok()) << scrape.status();
  EXPECT_EQ(scrape->Value("tandem:open_calls"), 3);
  EXPECT_EQ(scrape->Value("tandem:unread_bytes"), 70'000);
  EXPECT_EQ(scrape->Value("tandem:calls_refused_total"), 5);
  EXPECT_EQ(scrape->Value("tandem:unread_dropped_total", {{"cause", "patience"}}), 7);
  EXPECT_EQ(scrape->Value("tandem:unread_dropped_total", {{"cause", "bytes"}}), 11);
}

}  // namespace
}  // namespace tandem::orchestrator
