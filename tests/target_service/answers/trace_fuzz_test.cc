// Any messages in any order, streams that break, passes that fail: every sampled Step is one span,
// whose links and times fit to those of the passes, and every Step is counted once.
#include <gtest/gtest.h>
#include <prometheus/metric_family.h>

#include <algorithm>
#include <map>
#include <random>

#include "common/base/log.h"
#include "common/messages/trace_context.h"
#include "tests/target_service/answers/trace_links.h"
#include "tests/target_service/harness.h"

namespace tandem::target_service {
namespace {

using telemetry::SpanContext;
using testing::FakeSpan;

constexpr char kDropped[] = "its stream ended";

class TraceFuzzer {
 public:
  // One Step of so many is not sampled.
  TraceFuzzer(uint32_t seed, uint32_t one_of) : random_(seed), one_of_(one_of) {
    Options options;
    options.max_sequences = 5;
    options.prefill_rows = 8;
    options.tracer = &tracer_;
    testing::TableModelOptions model;
    model.max_rows = 24;
    model.before_pass = [this](absl::Span<const model::ForwardPart>) {
      target_->clock.Advance(absl::Microseconds(Pick(400)));
      return Pick(25) == 0 ? absl::InternalError("out of order") : absl::OkStatus();
    };
    target_ = std::make_unique<Harness>(options, model);
    for (size_t i = 0; i < 2; ++i) streams_.push_back(Connect(i));
  }

  void Run(int messages) {
    for (int i = 0; i < messages; ++i) {
      const size_t stream = Pick(2);
      std::vector<internal::v1::Step> steps;
      std::vector<uint64_t> close;
      for (uint32_t n = Pick(4); n > 0; --n) steps.push_back(NextStep());
      if (Pick(8) == 0) close.push_back(Pick(4));
      Harness::Send(streams_[stream], steps, close);
      if (Pick(2) == 0) target_->device->RunOnce();
      if (Pick(4) == 0) target_->clock.Advance(absl::Microseconds(Pick(300)));
      if (Pick(20) == 0) {
        streams_[stream].session->OnDone(absl::CancelledError("cut"));
        streams_[stream] = Connect(stream);
      }
    }
    target_->RunAll();
    target_->clock.Advance(absl::Seconds(1));  // nobody is waited for any more
    target_->RunAll();
  }

  // Returns the Steps that were sampled, by status; what was dropped under kDropped.
  std::map<std::string, int> Check() {
    const std::vector<FakeSpan> spans = tracer_.Take();
    EXPECT_EQ(LinkProblems(spans), "");
    const auto passes = Named(spans, telemetry::kPassSpan);
    std::map<int64_t, int> ids;
    for (const FakeSpan& pass : passes) {
      EXPECT_EQ(++ids[pass.number(telemetry::kPassId)], 1) << "a pass is there twice";
      EXPECT_EQ(pass.number(telemetry::kComputed), absl::ToInt64Microseconds(pass.duration()));
    }
    std::map<std::string, int> statuses;
    std::map<uint64_t, int> seen;
    for (const FakeSpan& step : Named(spans, telemetry::kStepSpan)) {
      ++seen[NumberOf(step.parent)];
      ++statuses[step.failure == kDropped ? kDropped : step.text(telemetry::kStatus)];
      if (step.attributes.count(telemetry::kRows) > 0) CheckTimes(step, passes);
    }
    EXPECT_EQ(seen, sampled_) << "one span a sampled Step";
    return statuses;
  }

  std::map<std::string, int> Counted() const {
    std::map<std::string, int> counted;
    for (const auto& family : target_->watchers->metrics().Collect(target_->device->load(), 0)) {
      if (family.name != "tandem:target_steps_total") continue;
      for (const auto& metric : family.metric) {
        if (metric.counter.value == 0) continue;
        counted[metric.label.at(0).value] = static_cast<int>(metric.counter.value);
      }
    }
    return counted;
  }

 private:
  uint32_t Pick(uint32_t below) { return static_cast<uint32_t>(random_() % below); }

  Harness::Stream Connect(size_t i) {
    Harness::Stream stream =
        target_->Connect(std::string(1, static_cast<char>('a' + i)), ++incarnation_);
    return stream;
  }

  static uint64_t NumberOf(const SpanContext& context) {
    uint64_t number = 0;
    for (uint8_t byte : context.span_id) number = number << 8 | byte;
    return number;
  }
  SpanContext NextWait() {
    SpanContext context;
    const uint64_t number = ++waits_;
    context.trace_id[0] = 1;
    for (size_t i = 0; i < 8; ++i) {
      context.span_id[7 - i] = static_cast<uint8_t>(number >> (8 * i));
    }
    if (Pick(one_of_) > 0 || one_of_ == 1) {
      context.flags = SpanContext::kSampled;
      ++sampled_[number];
    }
    return context;
  }

  internal::v1::Step NextStep() {
    const uint64_t sequence = Pick(4);
    std::vector<uint32_t>& text = texts_[sequence];
    const bool first = text.empty() || Pick(4) == 0;
    if (first) text.assign(1 + Pick(60), Pick(8));
    const uint32_t keep = first ? 0 : static_cast<uint32_t>(text.size());
    if (text.size() < 100) text.push_back(Pick(8));
    std::vector<uint32_t> candidates(Pick(4));
    internal::v1::Step step = MakeStep(sequence, ++round_, text, keep, candidates);
    if (first) *step.mutable_options() = SampledOptions();
    if (Pick(15) == 0) step.mutable_prefix()->set_hash(Pick(100));
    if (Pick(10) == 0) step.set_remaining_us(1 + Pick(300));
    if (Pick(15) == 0) step.add_parents(0);
    if (Pick(10) == 0) step.set_round(round_ / 2);
    *step.mutable_trace() = messages::ToWire(NextWait());
    return step;
  }

  // What was computed of it is what the passes took that link to its parent, but for one that
  // failed.
  static void CheckTimes(const FakeSpan& step, const std::vector<FakeSpan>& passes) {
    absl::Duration computed;
    for (const FakeSpan& pass : passes) {
      const bool in_it = std::count(pass.links.begin(), pass.links.end(), step.parent) > 0;
      if (!in_it) continue;
      EXPECT_GE(pass.began, step.began);
      EXPECT_LE(pass.ended, step.ended);
      if (!pass.failure.has_value()) computed += pass.duration();
    }
    EXPECT_EQ(step.number(telemetry::kComputed), absl::ToInt64Microseconds(computed));
    EXPECT_LE(step.number(telemetry::kQueued) + step.number(telemetry::kComputed),
              absl::ToInt64Microseconds(step.duration()));
  }

  std::mt19937 random_;
  const uint32_t one_of_;
  testing::FakeClock tracer_clock_;
  testing::FakeTracer tracer_{tracer_clock_, false};
  std::unique_ptr<Harness> target_;
  std::vector<Harness::Stream> streams_;
  std::map<uint64_t, std::vector<uint32_t>> texts_;
  std::map<uint64_t, int> sampled_;
  uint64_t incarnation_ = 0;
  uint64_t round_ = 0;
  uint64_t waits_ = 0;
};

TEST(TraceFuzz, EveryStepIsOneSpanAndCountedOnce) {
  const base::ScopedLogSink quiet([](const base::LogEntry&) {});  // each failed pass is a line
  std::map<std::string, int> all;
  for (uint32_t seed = 0; seed < 30; ++seed) {
    TraceFuzzer fuzzer(seed, 1);
    fuzzer.Run(150);
    std::map<std::string, int> statuses = fuzzer.Check();
    for (const auto& [status, count] : statuses) all[status] += count;
    statuses.erase(kDropped);
    EXPECT_EQ(statuses, fuzzer.Counted());
    if (::testing::Test::HasFailure()) FAIL() << "seed " << seed;
  }
  // Not vacuous: each of these came up.
  for (const char* status : {"OK", "NEED_PREFIX", "STALE", "INVALID", "NO_SLOT", "EXPIRED",
                             "CLOSED", "INTERNAL", kDropped}) {
    EXPECT_GT(all[status], 10) << status;
  }
}

TEST(TraceFuzz, OnlyWhatIsSampled) {
  const base::ScopedLogSink quiet([](const base::LogEntry&) {});
  for (uint32_t seed = 100; seed < 120; ++seed) {
    TraceFuzzer fuzzer(seed, 2);
    fuzzer.Run(150);
    fuzzer.Check();
    if (::testing::Test::HasFailure()) FAIL() << "seed " << seed;
  }
}

}  // namespace
}  // namespace tandem::target_service
