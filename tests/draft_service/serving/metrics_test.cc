// The draft service's metrics: exact, and each Advance once, however its stream ends.
#include <gtest/gtest.h>

#include <random>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/version.h"
#include "common/telemetry/attributes.h"
#include "tests/draft_service/serving/observed.h"
#include "tests/support/scrape.h"

namespace tandem::draft_service {
namespace {

using DraftMetricsTest = DraftObserved;

TEST_F(DraftMetricsTest, MetricsAreExact) {
  stream_.Send(MakeOpen(1, kPrompt));
  stream_.Send(MakeOpen(2, kPrompt));
  draft_.RunAll();
  draft_.Ask(stream_, MakeAdvance(1, 1, kPrompt, 5, 4));  // 4 passes of 1 row
  stream_.Send(MakeAdvance(1, 2, kPrompt, 5, 2));         // 2 passes with both
  stream_.Send(MakeAdvance(2, 1, kPrompt, 5, 3));         // and one more alone
  draft_.clock.Advance(absl::Milliseconds(2));
  draft_.RunAll();
  ASSERT_EQ(stream_.sink->Take().size(), 2u);
  draft_.Ask(stream_, MakeAdvance(1, 2, kPrompt, 5));  // stale
  const auto scrape = testing::ParseMetrics(draft_.executor->MetricsText());
  ASSERT_TRUE(scrape.ok()) << scrape.status();
  auto value = [&scrape](const std::string& name, const testing::MetricLabels& labels = {}) {
    return scrape->Value(absl::StrCat("tandem:draft_", name), labels);
  };
  EXPECT_EQ(value("blocks_total", {{"status", "OK"}}), 3);
  EXPECT_EQ(value("blocks_total", {{"status", "STALE"}}), 1);
  EXPECT_EQ(value("blocks_total", {{"status", "EXPIRED"}}), 0);
  EXPECT_EQ(value("tokens_total"), 9);
  EXPECT_EQ(value("passes_total"), draft_.executor->load().passes());
  EXPECT_EQ(value("pass_rows_count"), value("passes_total"));
  EXPECT_EQ(value("pass_rows_sum"), draft_.executor->load().pass_rows());
  EXPECT_EQ(value("pass_sequences_sum"), draft_.executor->load().pass_sequences());
  EXPECT_EQ(value("pass_sequences_bucket", {{"le", "1"}}) + 2, value("pass_sequences_count"));
  EXPECT_DOUBLE_EQ(value("busy_seconds_total"),
                   static_cast<double>(draft_.executor->load().busy_us()) / 1e6);
  EXPECT_EQ(value("block_seconds_count"), 3);
  EXPECT_NEAR(value("block_seconds_sum"), 0.0004 + 0.0002 + 0.0003, 1e-12);
  EXPECT_EQ(value("queue_seconds_count"), 4);
  EXPECT_NEAR(value("queue_seconds_sum"), 2 * 0.002, 1e-12);
  EXPECT_EQ(value("active_sequences"), 2);
  EXPECT_EQ(value("free_slots"), 1);
  EXPECT_EQ(value("queued_rows"), 0);
  EXPECT_EQ(scrape->families.at("tandem:draft_busy_seconds_total").type, "counter");
  EXPECT_EQ(scrape->families.at("tandem:draft_free_slots").type, "gauge");
  EXPECT_TRUE(scrape->Has(
      "tandem:build_info",
      {{"service", "draft"}, {"version", std::string(base::Version())}, {"instance", "draft-7"}}));
}

TEST_F(DraftMetricsTest, TokensOfAScopeAreCountedOnce) {
  internal::v1::SequenceOptions options = SampledOptions();
  options.set_cache_scope("a");
  const auto size = static_cast<uint32_t>(kPrompt.size());
  stream_.Send(MakeOpen(1, kPrompt, "model", options));
  draft_.Ask(stream_, MakeAdvance(1, 1, kPrompt, size));
  draft_.Ask(stream_, MakeAdvance(1, 2, kPrompt, size));
  stream_.Send(MakeOpen(2, kPrompt, "model", options));
  internal::v1::DraftRequest traced = Traced(MakeAdvance(2, 1, kPrompt, size), Context(1));
  draft_.Ask(stream_, traced);
  draft_.Ask(stream_, MakeAdvance(2, 2, kPrompt, size));
  const auto scrape = testing::ParseMetrics(draft_.executor->MetricsText());
  ASSERT_TRUE(scrape.ok()) << scrape.status();
  EXPECT_EQ(scrape->Value("tandem:draft_prefix_cache_queries_total"), 2 * size);
  EXPECT_EQ(scrape->Value("tandem:draft_prefix_cache_hits_total"), size - 1);
  EXPECT_EQ(TheSpan().number(telemetry::kCachedTokens), int64_t{size} - 1);
}

// Any messages in any order, streams that break too.
TEST_F(DraftMetricsTest, EveryAdvanceIsAnsweredOnceIsOneSpanAndCounted) {
  std::mt19937 random(5);
  auto pick = [&random](uint32_t below) { return static_cast<uint32_t>(random() % below); };
  std::set<std::string> asked;
  double advances = 0;
  for (int trial = 0; trial < 100; ++trial) {
    auto stream = draft_.Connect();
    std::multiset<std::pair<uint64_t, uint64_t>> unanswered;
    for (int i = 0; i < 60; ++i) {
      const uint64_t sequence = pick(4);
      std::vector<uint32_t> committed(1 + pick(20));
      for (uint32_t& token : committed) token = pick(3);
      switch (pick(8)) {
        case 0:
        case 1: {
          const char* drafters[] = {"model", "prompt-lookup", "random", "none"};
          stream.Send(MakeOpen(sequence, committed, drafters[pick(4)],
                               SampledOptions(pick(9), pick(9) == 0 ? -1.0f : 1.0f)));
          break;
        }
        case 2:
          stream.Send(MakeClose(sequence));
          break;
        case 3:
          draft_.executor->RunOnce();
          break;
        default: {
          internal::v1::DraftRequest request = MakeLateAdvance(
              sequence, pick(10), committed, pick(static_cast<uint32_t>(committed.size()) + 1),
              pick(18), pick(3) * absl::Microseconds(150));
          if (pick(5) == 0) request.mutable_advance()->mutable_prefix()->set_hash(pick(9));
          ++advances;
          unanswered.emplace(sequence, request.advance().round());
          const bool sampled = pick(2) == 0;
          SpanContext context = Context(static_cast<uint8_t>(1 + pick(255)), sampled);
          context.trace_id[0] = static_cast<uint8_t>(trial);
          context.trace_id[1] = static_cast<uint8_t>(i);
          if (sampled) asked.insert(telemetry::ToBytes(context));
          stream.Send(Traced(request, context));
        }
      }
    }
    EXPECT_FALSE(stream.sink->closed().has_value());
    if (pick(2) == 0) {
      stream.session->OnHalfClose();
      draft_.RunAll();
      for (const internal::v1::Block& block : stream.sink->Take()) {
        EXPECT_TRUE(block.final());
        EXPECT_NE(block.status(), internal::v1::STATUS_UNSPECIFIED);
        const auto asked_for = unanswered.find({block.sequence(), block.round()});
        ASSERT_NE(asked_for, unanswered.end()) << block.ShortDebugString();
        unanswered.erase(asked_for);
      }
      EXPECT_EQ(unanswered.size(), 0u) << "trial " << trial;
      EXPECT_TRUE(stream.sink->closed()->ok());
    }
    stream.session->OnDone(absl::CancelledError("gone"));
    draft_.RunAll();
    ASSERT_EQ(draft_.model.live_caches(), 0);
    ASSERT_EQ(draft_.executor->active_sequences(), 0u);
  }
  std::set<std::string> seen;
  for (const FakeSpan& span : tracer_.Finished()) {
    EXPECT_TRUE(seen.insert(telemetry::ToBytes(span.parent)).second) << "two spans of one Advance";
    EXPECT_EQ(span.duration(), absl::Microseconds(span.number(telemetry::kQueued) +
                                                  span.number(telemetry::kComputed)));
  }
  EXPECT_GT(asked.size(), 1000u);
  EXPECT_EQ(seen, asked);
  const auto scrape = testing::ParseMetrics(draft_.executor->MetricsText());
  ASSERT_TRUE(scrape.ok()) << scrape.status();
  EXPECT_EQ(scrape->Sum("tandem:draft_blocks_total"), advances);
  EXPECT_EQ(scrape->Value("tandem:draft_queue_seconds_count"), advances);
}

}  // namespace
}  // namespace tandem::draft_service
