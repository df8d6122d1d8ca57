#include "tests/orchestrator/harness/traced_loop.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/telemetry/attributes.h"
#include "gtest/gtest.h"
#include "orchestrator/trace/request_trace.h"

namespace tandem::orchestrator {
namespace {

using testing::FakeSpan;

bool BeganEarlier(const FakeSpan& a, const FakeSpan& b) { return a.began < b.began; }

class Problems {
 public:
  void Check(bool good, const std::string& what) {
    if (!good) absl::StrAppend(&text_, what, "; ");
  }
  void Equal(absl::Duration a, absl::Duration b, const std::string& what) {
    Check(a == b,
          absl::StrCat(what, ": ", absl::FormatDuration(a), " and ", absl::FormatDuration(b)));
  }
  void Equal(concurrency::Instant a, concurrency::Instant b, const std::string& what) {
    Equal(a - concurrency::Instant(), b - concurrency::Instant(), what);
  }
  std::string text() && { return std::move(text_); }

 private:
  std::string text_;
};

}  // namespace

std::vector<RoundSpans> RoundsOf(const std::vector<FakeSpan>& spans) {
  std::vector<RoundSpans> rounds;
  for (const FakeSpan& span : spans) {
    if (span.name == telemetry::kRoundSpan) rounds.push_back({span, {}, {}});
  }
  std::stable_sort(rounds.begin(), rounds.end(), [](const RoundSpans& a, const RoundSpans& b) {
    return BeganEarlier(a.round, b.round);
  });
  std::map<std::array<uint8_t, 8>, RoundSpans*> by_id;
  for (RoundSpans& round : rounds) by_id[round.round.context.span_id] = &round;
  for (const FakeSpan& span : spans) {
    const bool propose = span.name == telemetry::kProposeSpan;
    if (!propose && span.name != telemetry::kVerifySpan) continue;
    const auto it = by_id.find(span.parent.span_id);
    if (it == by_id.end()) {
      ADD_FAILURE() << span.name << " hangs under no round";
      continue;
    }
    EXPECT_EQ(span.kind, telemetry::SpanKind::kClient);
    EXPECT_EQ(span.context.trace_id, it->second->round.context.trace_id);
    (propose ? it->second->propose : it->second->verify).push_back(span);
  }
  for (RoundSpans& round : rounds) {
    std::stable_sort(round.verify.begin(), round.verify.end(), BeganEarlier);
  }
  return rounds;
}

std::string ProblemsOf(const RoundSpans& spans, const RoundRecord& record) {
  Problems problems;
  const FakeSpan& round = spans.round;
  const RoundStages& stages = record.stages;
  problems.Equal(round.began, record.began, "beginning");
  problems.Equal(round.ended, record.decided, "end");
  problems.Equal(stages.total(), round.duration(), "sum of stages and duration");
  const std::pair<const char*, absl::Duration> named[] = {
      {telemetry::kStageDraft, stages.draft},   {telemetry::kStageNetwork, stages.network},
      {telemetry::kStageSlot, stages.slot},     {telemetry::kStageQueue, stages.queue},
      {telemetry::kStageDevice, stages.device}, {telemetry::kStageOwn, stages.own}};
  for (const auto& [name, stage] : named) {
    problems.Check(stage >= absl::ZeroDuration(), absl::StrCat(name, " is negative"));
    problems.Check(round.number(name) == absl::ToInt64Microseconds(stage),
                   absl::StrCat(name, " is another one in the span"));
  }
  problems.Check(round.number(telemetry::kRound) == record.number, "number");
  problems.Check(round.number(telemetry::kCommitted) == record.committed, "committed");
  problems.Check(round.number(telemetry::kDrafted) == record.draft_tokens, "draft_tokens");
  problems.Check(round.number(telemetry::kAccepted) == record.accepted_tokens, "accepted_tokens");
  problems.Check(round.number(telemetry::kTokens) == record.tokens, "tokens");
  problems.Check(round.attributes.contains(telemetry::kCause) == record.cause.has_value(), "cause");

  problems.Check(spans.propose.size() <= 1, "two proposals");
  problems.Check(!spans.verify.empty(), "no verify");
  concurrency::Instant until = round.began;
  absl::Duration answered;
  const auto add = [&](const FakeSpan& span, bool counts) {
    problems.Check(span.began >= until && span.ended >= span.began && span.ended <= round.ended,
                   absl::StrCat(span.name, " overlaps"));
    until = span.ended;
    if (counts) answered += span.duration();
  };
  for (const FakeSpan& span : spans.propose) {
    problems.Equal(span.began, round.began, "beginning of the proposal");
    add(span, true);
  }
  for (const FakeSpan& span : spans.verify) add(span, span.text(telemetry::kStatus) == "OK");
  problems.Equal(stages.draft + stages.network + stages.queue + stages.device, answered,
                 "draft, network, queue and device, and the spans of what was answered");
  problems.Equal(stages.slot + stages.own, round.duration() - answered,
                 "slot and own, and the rest");
  return std::move(problems).text();
}

TracedLoop::TracedLoop(GenerationRequest request, HarnessOptions options)
    : request_(std::move(request)) {
  options.watch = [this](const testing::FakeClock& clock) { return Watch(clock); };
  harness_ = std::make_unique<LoopHarness>(request_, std::move(options));
  harness_->target.on_step = [this](const VerifyStep& step, VerifyReply& reply) {
    sent_steps.push_back(step.trace.value_or(telemetry::SpanContext()));
    return on_step ? on_step(step, reply) : FakeTarget::Do::kAnswer;
  };
  harness_->draft.on_advance = [this](const DraftAdvance& advance, DraftReplyBlock& reply) {
    sent_advances.push_back(advance.trace.value_or(telemetry::SpanContext()));
    return on_advance ? on_advance(advance, reply) : FakeDraft::Do::kAnswer;
  };
}

TracedLoop::~TracedLoop() { Release(); }

// As a request does it: the loop, what it used, who watched it. The clock is the harness's.
void TracedLoop::Release() {
  harness_->loop = nullptr;
  harness_->verify_session = nullptr;
  harness_->draft_session = nullptr;
  harness_->observer = nullptr;
  generate_ = nullptr;
}

std::unique_ptr<RoundObserver> TracedLoop::Watch(const testing::FakeClock& clock) {
  tracer_ = std::make_unique<testing::FakeTracer>(clock);
  arrived_ = clock.Now();
  generate_ = TraceRequests(*tracer_)({arrived_, ""});
  generate_->OnAccepted(arrived_, request_);
  std::vector<std::unique_ptr<RoundObserver>> observers;
  observers.push_back(generate_->WatchSample(0));
  observers.push_back(std::make_unique<RoundRecorder>(records_));
  return JoinObservers(std::move(observers));
}

void TracedLoop::Run() {
  harness_->Start();
  harness_->Run();
}

void TracedLoop::Finish() {
  if (std::exchange(finished_, true)) return;
  TANDEM_CHECK(harness_->ending.has_value());
  generate_->OnEnded({arrived_,
                      harness_->clock.Now(),
                      harness_->ending->status,
                      generate_->trace_id(),
                      &request_,
                      {&*harness_->ending, 1}});
  Release();
}

std::vector<RoundSpans> TracedLoop::Rounds() {
  Finish();
  return RoundsOf(tracer_->Finished());
}

void TracedLoop::ExpectSound() {
  const std::vector<RoundSpans> rounds = Rounds();
  size_t decided = 0;
  for (size_t i = 0; i < rounds.size(); ++i) {
    EXPECT_EQ(rounds[i].round.kind, telemetry::SpanKind::kInternal);
    if (!rounds[i].decided()) {
      EXPECT_EQ(i, rounds.size() - 1) << "the request ended in it";
      EXPECT_FALSE(harness_->ending->status.ok());
      EXPECT_TRUE(rounds[i].round.failure.has_value());
      continue;
    }
    ASSERT_LT(i, records_.size());
    EXPECT_EQ(ProblemsOf(rounds[i], records_[i]), "") << i;
    ++decided;
  }
  EXPECT_EQ(decided, records_.size());
  EXPECT_EQ(decided, harness_->ending->counts.rounds);
  RoundStages sum;
  for (const RoundRecord& record : records_) sum += record.stages;
  EXPECT_EQ(sum.total(), harness_->ending->times.stages.total());
  EXPECT_EQ(sum.device, harness_->ending->times.stages.device);
  EXPECT_EQ(sum.slot, harness_->ending->times.stages.slot);
}

}  // namespace tandem::orchestrator
