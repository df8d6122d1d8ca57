// Any messages in any order, from several streams that break, and passes that fail: every Step gets
// exactly one verdict, every verdict that is OK equals the direct computation, every sampled Step
// is one span whose links and times fit to those of the passes, every Step is counted once, and
// nothing is left behind.
#include <gtest/gtest.h>
#include <prometheus/metric_family.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "common/base/log.h"
#include "common/messages/trace_context.h"
#include "common/transport/status_name.h"
#include "tests/support/fuzz_seeds.h"
#include "tests/target_service/answers/trace_links.h"
#include "tests/target_service/every_option.h"

namespace tandem::target_service {
namespace {

using telemetry::SpanContext;
using testing::FakeSpan;

constexpr char kDropped[] = "its stream ended";

class Fuzzer {
 public:
  // Every third seed leaves some Steps unsampled; passes of odd ones fail now and then.
  explicit Fuzzer(uint32_t seed)
      : random_(seed),
        sampled_alone_(seed % 3 > 0),
        fails_(seed % 2 == 1),
        target_(MakeOptions(), MakeModel()) {
    for (size_t i = 0; i < 2; ++i) streams_.push_back(Connect(i));
  }

  void Run(int messages) {
    for (int i = 0; i < messages; ++i) {
      const size_t stream = Pick(2);
      std::vector<internal::v1::Step> steps;
      std::vector<uint64_t> close;
      for (uint32_t n = Pick(4); n > 0; --n) steps.push_back(NextStep(stream));
      if (Pick(8) == 0) close.push_back(Pick(4));
      Harness::Send(streams_[stream], steps, close);
      if (Pick(2) == 0) target_.device->RunOnce();
      if (Pick(6) == 0) target_.clock.Advance(absl::Microseconds(Pick(300)));
      if (Pick(30) == 0) Reconnect(stream);
      Collect();
    }
    target_.RunAll();
    target_.clock.Advance(absl::Seconds(1));  // nobody is waited for any more
    target_.RunAll();
    Collect();
  }

  // Adds the sampled Steps to `all`, by status; what was dropped under kDropped.
  void CheckSpans(std::map<std::string, int>& all) {
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
    for (const auto& [status, count] : statuses) all[status] += count;
    statuses.erase(kDropped);
    if (sampled_alone_) {
      EXPECT_EQ(statuses, Counted());
    }
  }

  void ExpectAllAnsweredOnceAndNothingLeft() {
    EXPECT_TRUE(open_.empty()) << open_.size() << " Steps without a verdict";
    for (auto& stream : streams_) {
      EXPECT_FALSE(stream.sink->closed().has_value());
      stream.session->OnDone(absl::CancelledError("gone"));
    }
    target_.WaitForLingering();
    EXPECT_EQ(target_.model->live_caches(), 0);
    EXPECT_EQ(target_.device->active_sequences(), 0u);
  }

  const std::map<internal::v1::Status, int>& counts() const { return counts_; }
  // Verdicts that were found right, by the kind of their options.
  const std::map<uint32_t, int>& right() const { return right_; }

 private:
  using Name = std::tuple<size_t, uint64_t, uint64_t>;  // stream, sequence, round
  struct Asked {
    internal::v1::Step step;
    std::vector<uint32_t> committed;
  };

  static constexpr uint32_t kKinds = 12;

  // Every rule, bare and with every option; some with log probabilities.
  static internal::v1::SequenceOptions OptionsOfKind(uint64_t seed, uint32_t kind) {
    const RuleCase& rule = EveryRule()[kind / 2];
    internal::v1::SequenceOptions options =
        kind % 2 == 0 ? OptionsOf(rule, seed) : EveryOption(rule, 3, seed);
    if (kind % 3 == 0) options.mutable_logprobs()->set_top(kind % 4);
    if (kind % 6 == 0) options.mutable_logprobs()->set_processed(true);
    return options;
  }

  Options MakeOptions() {
    Options options;
    options.tracer = &tracer_;
    options.max_sequences = 5;
    options.prefill_rows = 8;
    return options;
  }
  testing::TableModelOptions MakeModel() {
    testing::TableModelOptions model;
    model.before_pass = [this](absl::Span<const model::ForwardPart>) {
      target_.clock.Advance(absl::Microseconds(Pick(100)));
      return fails_ && Pick(25) == 0 ? absl::InternalError("out of order") : absl::OkStatus();
    };
    model.max_rows = 24;
    model.pool_tokens = 900;  // for four of the five, where they are as long as they may be
    return model;
  }

  Harness::Stream Connect(size_t i) {
    return target_.Connect(std::string(1, static_cast<char>('a' + i)), ++incarnation_);
  }

  // The client goes on where it was, on a new stream; the old one is broken, or will be fenced.
  // What it was not answered is lost.
  void Reconnect(size_t i) {
    Collect();
    if (Pick(2) == 0) streams_[i].session->OnDone(absl::CancelledError("cut"));
    if (Pick(2) == 0) target_.device->RunOnce();
    if (Pick(4) == 0) target_.clock.Advance(absl::Seconds(2));
    old_streams_.push_back(std::exchange(streams_[i], Connect(i)));
    std::erase_if(open_, [i](const Name& name) { return std::get<0>(name) == i; });
  }

  uint32_t Pick(uint32_t below) { return static_cast<uint32_t>(random_() % below); }

  // Mostly a right continuation of what the sequence was last told; else something wrong with it.
  internal::v1::Step NextStep(size_t stream) {
    const uint64_t sequence = Pick(4);
    std::vector<uint32_t>& text = texts_[{stream, sequence}];
    const uint64_t round = ++round_;
    const bool replay = text.empty() || Pick(6) == 0;
    uint32_t keep = static_cast<uint32_t>(text.size());
    if (replay) {
      if (Pick(2) == 0) text.assign(1 + Pick(40), Pick(8));
      keep = 0;
    } else if (Pick(4) == 0) {
      keep = 1 + Pick(keep);
      text.resize(keep);
    }
    for (uint32_t n = 1 + Pick(3); n > 0 && text.size() < 150; --n) text.push_back(Pick(8));
    std::vector<uint32_t> candidates(Pick(6));
    for (uint32_t& candidate : candidates) candidate = Pick(9);  // 8 is not a token
    internal::v1::Step step = MakeStep(sequence, round, text, keep, candidates);
    if (keep == 0) *step.mutable_options() = OptionsOfKind(sequence, Pick(kKinds));
    step.set_prompt_logprobs(Pick(5) == 0);
    *step.mutable_trace() = messages::ToWire(NextWait());
    Spoil(step);
    const Name name(stream, step.sequence(), step.round());
    open_.insert(name);
    asked_.emplace(name, Asked{step, text});
    return step;
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
    if (sampled_alone_ || Pick(2) == 0) {
      context.flags = SpanContext::kSampled;
      ++sampled_[number];
    }
    return context;
  }

  // What was computed of it is what the passes took that link to its parent, but for one that
  // failed.
  static void CheckTimes(const FakeSpan& step, const std::vector<FakeSpan>& passes) {
    absl::Duration computed;
    for (const FakeSpan& pass : passes) {
      if (std::count(pass.links.begin(), pass.links.end(), step.parent) == 0) continue;
      EXPECT_GE(pass.began, step.began);
      EXPECT_LE(pass.ended, step.ended);
      if (!pass.failure.has_value()) computed += pass.duration();
    }
    EXPECT_EQ(step.number(telemetry::kComputed), absl::ToInt64Microseconds(computed));
    EXPECT_LE(step.number(telemetry::kQueued) + step.number(telemetry::kComputed),
              absl::ToInt64Microseconds(step.duration()));
  }

  std::map<std::string, int> Counted() const {
    std::map<std::string, int> counted;
    for (const auto& family : target_.watchers->metrics().Collect(target_.device->load(), 0)) {
      if (family.name != "tandem:target_steps_total") continue;
      for (const auto& metric : family.metric) {
        if (metric.counter.value == 0) continue;
        counted[metric.label.at(0).value] = static_cast<int>(metric.counter.value);
      }
    }
    return counted;
  }

  void Spoil(internal::v1::Step& step) {
    switch (Pick(20)) {
      case 0:
        step.mutable_prefix()->set_hash(Pick(100));
        break;
      case 1:
        step.mutable_prefix()->set_keep(step.prefix().keep() + 1 + Pick(300));
        break;
      case 2:
        step.set_round(round_ - std::min<uint64_t>(round_, 1 + Pick(5)));  // old: a duplicate
        break;
      case 3:
        step.clear_options();
        break;
      case 4:
        step.set_remaining_us(1 + Pick(200));
        break;
      case 5:
        step.add_q();
        break;
      case 6:
        step.set_more(true);
        break;
      case 7:
        step.mutable_prefix()->add_tokens(99);
        break;
      default:
        break;
    }
  }

  void Collect() {
    for (size_t stream = 0; stream < streams_.size(); ++stream) {
      for (const internal::v1::Verdict& verdict : streams_[stream].sink->Take()) {
        ++counts_[verdict.status()];
        auto asked = open_.find(Name(stream, verdict.sequence(), verdict.round()));
        ASSERT_NE(asked, open_.end())
            << "a verdict nobody asked for: " << verdict.ShortDebugString();
        if (verdict.status() == internal::v1::STATUS_OK) Check(stream, verdict);
        open_.erase(asked);
      }
    }
  }

  // Some Step of this name must have these entries, under options that the sequence had at some
  // time.
  void Check(size_t stream, const internal::v1::Verdict& verdict) {
    auto [begin, end] = asked_.equal_range(Name(stream, verdict.sequence(), verdict.round()));
    for (auto it = begin; it != end; ++it) {
      const Asked& asked = it->second;
      const std::vector<uint32_t> candidates(asked.step.candidates().begin(),
                                             asked.step.candidates().end());
      for (uint32_t kind = 0; kind < kKinds; ++kind) {
        const internal::v1::SequenceOptions options = OptionsOfKind(verdict.sequence(), kind);
        const bool right_entries =
            asked.step.more()
                ? verdict.entries().empty()
                : SameEntries(verdict, target_.Expected(options, asked.committed, candidates));
        if (right_entries &&
            WrongLogprobs(target_, options, asked.step, asked.committed, verdict).empty()) {
          ++right_[kind];
          return;
        }
      }
    }
    ADD_FAILURE() << "wrong entries: " << verdict.ShortDebugString();
  }

  std::mt19937 random_;
  const bool sampled_alone_;
  const bool fails_;
  testing::FakeClock tracer_clock_;
  testing::FakeTracer tracer_{tracer_clock_, false};
  std::map<uint64_t, int> sampled_;
  uint64_t waits_ = 0;
  Harness target_;
  std::vector<Harness::Stream> streams_;
  std::vector<Harness::Stream> old_streams_;
  uint64_t incarnation_ = 0;
  uint64_t round_ = 0;
  std::map<std::pair<size_t, uint64_t>, std::vector<uint32_t>> texts_;
  std::multiset<Name> open_;          // Steps without a verdict
  std::multimap<Name, Asked> asked_;  // all Steps; duplicates share a name
  std::map<internal::v1::Status, int> counts_;
  std::map<uint32_t, int> right_;
};

TEST(TargetFuzz, EveryStepIsAnsweredOnceAndRightlyAndIsOneSpan) {
  const base::ScopedLogSink quiet([](const base::LogEntry&) {});  // each stream is two lines
  std::map<std::string, int> spans;
  std::map<internal::v1::Status, int> counts;
  std::map<uint32_t, int> right;
  const uint32_t seeds = testing::FuzzSeeds(120);
  for (uint32_t seed = 0; seed < seeds; ++seed) {
    Fuzzer fuzzer(seed);
    fuzzer.Run(120);
    fuzzer.CheckSpans(spans);
    fuzzer.ExpectAllAnsweredOnceAndNothingLeft();
    if (::testing::Test::HasFailure()) FAIL() << "seed " << seed;
    if (seed % 2 == 0) {
      EXPECT_EQ(fuzzer.counts().count(internal::v1::STATUS_INTERNAL), 0u) << "no pass failed";
    }
    for (auto [status, count] : fuzzer.counts()) counts[status] += count;
    for (auto [kind, count] : fuzzer.right()) right[kind] += count;
  }
  EXPECT_EQ(right.size(), 12u);
  for (auto [kind, count] : right) EXPECT_GT(count, 10) << "options of kind " << kind;
  // Not vacuous: each of these came up.
  for (internal::v1::Status status :
       {internal::v1::STATUS_OK, internal::v1::STATUS_NEED_PREFIX, internal::v1::STATUS_STALE,
        internal::v1::STATUS_INVALID, internal::v1::STATUS_NO_SLOT, internal::v1::STATUS_EXPIRED,
        internal::v1::STATUS_CLOSED, internal::v1::STATUS_INTERNAL}) {
    EXPECT_GT(counts[status], 10) << internal::v1::Status_Name(status);
    EXPECT_GT(spans[std::string(transport::StatusName(status))], 10)
        << internal::v1::Status_Name(status);
  }
  EXPECT_GT(spans[kDropped], 10);
  EXPECT_GT(counts[internal::v1::STATUS_OK], 500);
}

}  // namespace
}  // namespace tandem::target_service
