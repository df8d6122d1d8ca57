// The spans of a target, on a clock that a test holds in its hand.
#include "target_service/answers/step_trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "common/concurrency/instant.h"
#include "common/messages/trace_context.h"
#include "common/transport/status_name.h"
#include "tests/target_service/answers/trace_links.h"
#include "tests/target_service/harness.h"

namespace tandem::target_service::step_trace_test {
namespace {

using telemetry::SpanContext;
using testing::FakeSpan;

const std::vector<uint32_t> kPrompt = {1, 2, 3, 4, 5};
constexpr absl::Duration kPass = absl::Milliseconds(3);

SpanContext Wait(uint64_t number, bool sampled = true) {
  SpanContext context;
  context.trace_id[0] = 0xab;
  context.span_id[0] = 0xcd;
  context.trace_id[15] = context.span_id[7] = static_cast<uint8_t>(number);
  context.flags = sampled ? SpanContext::kSampled : 0;
  return context;
}

internal::v1::Step Traced(internal::v1::Step step, const SpanContext& context) {
  *step.mutable_trace() = messages::ToWire(context);
  return step;
}

// A target whose passes take kPass.
class StepTraceTest : public ::testing::Test {
 protected:
  void Start(Options options = {}, testing::TableModelOptions model = {}) {
    options.tracer = &tracer_;
    model.before_pass = [this](absl::Span<const model::ForwardPart>) {
      if (auto meanwhile = std::exchange(meanwhile_, nullptr)) meanwhile();
      clock_->Advance(kPass);
      return std::exchange(failure_, absl::OkStatus());
    };
    target_ = std::make_unique<Harness>(options, model);
    clock_ = &target_->clock;
    stream_ = target_->Connect();
    target_->RunAll();
  }
  // The only span that came of the Step, which was refused.
  FakeSpan Refused(const internal::v1::Step& step, internal::v1::Status status) {
    target_->RunAll();
    stream_.sink->Take();
    tracer_.Take();
    const internal::v1::Verdict verdict = target_->Ask(stream_, Traced(step, Wait(77)));
    EXPECT_EQ(verdict.status(), status) << verdict.ShortDebugString();
    const auto spans = tracer_.Take();
    EXPECT_EQ(LinkProblems(spans), "");
    EXPECT_EQ(spans.size(), 1u) << internal::v1::Status_Name(status);
    if (spans.size() != 1) return {};
    EXPECT_EQ(spans[0].name, telemetry::kStepSpan);
    EXPECT_EQ(spans[0].kind, telemetry::SpanKind::kServer);
    EXPECT_EQ(spans[0].parent, Wait(77));
    EXPECT_EQ(spans[0].text(telemetry::kStatus), transport::StatusName(status));
    EXPECT_TRUE(spans[0].links.empty());
    EXPECT_EQ(spans[0].failure, std::nullopt) << "a client knows what to do";
    return spans[0];
  }

  testing::FakeClock tracer_clock_;
  testing::FakeTracer tracer_{tracer_clock_, false};
  std::function<void()> meanwhile_;  // once, in the next pass
  absl::Status failure_;             // of the next pass
  testing::FakeClock* clock_ = nullptr;
  std::unique_ptr<Harness> target_;
  Harness::Stream stream_;
};

TEST_F(StepTraceTest, AStepAndItsPass) {
  Options options;
  options.model_name = "a-model";
  Start(options);
  const concurrency::Instant arrived = clock_->Now();
  Harness::Send(stream_, {Traced(FirstStep(1, kPrompt, {1, 2}), Wait(1))});
  clock_->Advance(absl::Milliseconds(5));
  target_->RunAll();
  const internal::v1::Verdict verdict = stream_.sink->Take().at(0);
  const auto spans = tracer_.Take();
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(LinkProblems(spans), "");

  const FakeSpan& pass = spans[0];
  EXPECT_EQ(pass.name, telemetry::kPassSpan);
  EXPECT_EQ(pass.kind, telemetry::SpanKind::kInternal);
  EXPECT_EQ(pass.links, std::vector<SpanContext>{Wait(1)});
  EXPECT_NE(pass.context.trace_id, Wait(1).trace_id);
  EXPECT_EQ(pass.began, arrived + absl::Milliseconds(5));
  EXPECT_EQ(pass.duration(), kPass);
  EXPECT_EQ(pass.number(telemetry::kPassId), 1);
  EXPECT_EQ(pass.number(telemetry::kPassRows), 7);
  EXPECT_EQ(pass.number(telemetry::kPassSequences), 1);
  EXPECT_EQ(pass.number(telemetry::kComputed), 3000);
  EXPECT_EQ(pass.failure, std::nullopt);

  const FakeSpan& step = spans[1];
  EXPECT_EQ(step.name, telemetry::kStepSpan);
  EXPECT_EQ(step.kind, telemetry::SpanKind::kServer);
  EXPECT_EQ(step.parent, Wait(1));
  EXPECT_EQ(step.context.trace_id, Wait(1).trace_id);
  EXPECT_EQ(step.began, arrived);
  EXPECT_EQ(step.duration(), absl::Milliseconds(8));
  EXPECT_EQ(step.text(telemetry::kStatus), "OK");
  EXPECT_EQ(step.number(telemetry::kQueued), 5000);
  EXPECT_EQ(step.number(telemetry::kComputed), 3000);
  EXPECT_EQ(step.number(telemetry::kRows), 7);
  EXPECT_EQ(step.number(telemetry::kDrafted), 2);
  EXPECT_EQ(step.text(telemetry::kRpcSystem), "grpc");
  EXPECT_EQ(step.text(telemetry::kRpcMethod), "tandem.internal.v1.Target/Verify");
  EXPECT_EQ(step.text(telemetry::kGenAiModel), "a-model");
  EXPECT_EQ(pass.text(telemetry::kGenAiModel), "a-model");
  EXPECT_FALSE(step.Has(telemetry::kErrorType));

  // As the verdict says.
  EXPECT_EQ(static_cast<uint64_t>(step.number(telemetry::kQueued)), verdict.queued_us());
  EXPECT_EQ(static_cast<uint64_t>(step.number(telemetry::kComputed)), verdict.computed_us());
  EXPECT_EQ(static_cast<uint64_t>(step.number(telemetry::kPassId)), verdict.pass_id());
  EXPECT_EQ(step.number(telemetry::kPassRows), verdict.pass_rows());
  EXPECT_EQ(step.number(telemetry::kPassSequences), verdict.pass_sequences());
}

// It begins when the Step before ends. One whose outcome does not come true has no pass.
TEST_F(StepTraceTest, AChainedStepHangsUnderTheWaitBefore) {
  Start();
  internal::v1::SequenceOptions greedy = SampledOptions(7, 0);
  greedy.set_rule(v1::RULE_GREEDY);
  const uint32_t own = *target_->Expected(greedy, kPrompt, {})[0].next_token;
  for (const bool comes_true : {true, false}) {
    internal::v1::Step chained;
    chained.set_sequence(comes_true ? 1 : 2);
    chained.set_round(2);
    chained.set_after(1);
    internal::v1::PreparedBlock& prepared = *chained.add_prepared();
    prepared.set_next_token(comes_true ? own : (own + 1) % 8);
    prepared.add_candidates(3);
    internal::v1::Step first = FirstStep(chained.sequence(), kPrompt, {}, greedy);
    Harness::Send(stream_, {Traced(first, Wait(1)), Traced(chained, Wait(1))});
    clock_->Advance(absl::Milliseconds(5));
    target_->RunAll();
    const auto verdicts = stream_.sink->Take();
    ASSERT_EQ(verdicts.size(), 2u);
    const auto spans = tracer_.Take();
    EXPECT_EQ(LinkProblems(spans), "");
    const auto steps = Named(spans, telemetry::kStepSpan);
    ASSERT_EQ(steps.size(), 2u);
    EXPECT_FALSE(steps[0].Has(telemetry::kChained));
    EXPECT_TRUE(steps[1].Has(telemetry::kChained));
    EXPECT_EQ(steps[1].parent, Wait(1));
    EXPECT_EQ(steps[1].text(telemetry::kStatus), comes_true ? "OK" : "STALE");
    EXPECT_EQ(steps[1].ended, steps[0].ended + (comes_true ? kPass : absl::ZeroDuration()));
    EXPECT_EQ(steps[1].began, comes_true ? steps[0].ended : steps[0].began);
    EXPECT_EQ(Named(spans, telemetry::kPassSpan).size(), comes_true ? 2u : 1u);
  }
}

TEST_F(StepTraceTest, ASlowPassIsComputedAndTheStepThatWaitsForItQueues) {
  Start();
  auto other = target_->Connect("other");
  Harness::Send(stream_, {Traced(FirstStep(1, kPrompt), Wait(1))});
  clock_->Advance(absl::Milliseconds(1));
  meanwhile_ = [this, &other] {  // 20 ms more than usual
    clock_->Advance(absl::Milliseconds(19));
    Harness::Send(other, {Traced(FirstStep(1, kPrompt), Wait(2))});
    clock_->Advance(absl::Milliseconds(1));
  };
  target_->RunAll();
  const auto spans = tracer_.Take();
  EXPECT_EQ(LinkProblems(spans), "");
  const auto passes = Named(spans, telemetry::kPassSpan);
  ASSERT_EQ(passes.size(), 2u);
  EXPECT_EQ(passes[0].duration(), kPass + absl::Milliseconds(20));
  EXPECT_EQ(passes[1].duration(), kPass);
  const auto steps = Named(spans, telemetry::kStepSpan);
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0].number(telemetry::kQueued), 1000);
  EXPECT_EQ(steps[0].number(telemetry::kComputed), 23000);
  EXPECT_EQ(steps[1].number(telemetry::kQueued), 4000);
  EXPECT_EQ(steps[1].number(telemetry::kComputed), 3000);
  EXPECT_EQ(steps[1].duration(), absl::Milliseconds(7));
}

TEST_F(StepTraceTest, APassLinksToAllThatAreSampledInIt) {
  Start();
  auto other = target_->Connect("other");
  Harness::Send(stream_, {Traced(FirstStep(1, kPrompt, {1}), Wait(1)),
                          Traced(FirstStep(2, kPrompt, {1}), Wait(2)),
                          Traced(FirstStep(3, kPrompt, {1}), Wait(3, false))});
  Harness::Send(other, {Traced(FirstStep(1, kPrompt, {1}), Wait(4)),
                        Traced(FirstStep(2, kPrompt, {1}), Wait(5))});
  target_->RunAll();
  ASSERT_EQ(stream_.sink->Take().size(), 3u);
  ASSERT_EQ(other.sink->Take().size(), 2u);
  const auto spans = tracer_.Take();
  EXPECT_EQ(LinkProblems(spans), "");
  const auto passes = Named(spans, telemetry::kPassSpan);
  ASSERT_EQ(passes.size(), 1u);
  EXPECT_EQ(passes[0].number(telemetry::kPassSequences), 5);
  EXPECT_EQ(passes[0].number(telemetry::kPassRows), 30);
  std::vector<SpanContext> links = passes[0].links;
  std::sort(links.begin(), links.end(),
            [](const auto& a, const auto& b) { return a.span_id < b.span_id; });
  EXPECT_EQ(links, (std::vector<SpanContext>{Wait(1), Wait(2), Wait(4), Wait(5)}));
  EXPECT_EQ(Named(spans, telemetry::kStepSpan).size(), 4u);
}

// The check of the links finds what is wrong with them.
TEST_F(StepTraceTest, WrongLinksAreFound) {
  Start();
  Harness::Send(stream_, {Traced(FirstStep(1, kPrompt, {1}), Wait(1)),
                          Traced(FirstStep(2, kPrompt, {1}), Wait(2))});
  target_->RunAll();
  ASSERT_EQ(stream_.sink->Take().size(), 2u);
  target_->Ask(stream_, Traced(MakeStep(1, 2, kPrompt, 5), Wait(3)));
  const auto good = tracer_.Take();
  ASSERT_EQ(good.size(), 5u);  // pass, step, step, pass, step
  ASSERT_EQ(LinkProblems(good), "");
  auto problem_after = [&good](auto change) {
    auto spans = good;
    change(spans);
    return LinkProblems(spans);
  };
  EXPECT_NE(problem_after([](auto& spans) { spans[1].links.clear(); }), "");
  EXPECT_NE(problem_after([](auto& spans) { spans[1].links.push_back(spans[3].context); }), "");
  EXPECT_NE(problem_after([](auto& spans) { spans[1].links = spans[4].links; }), "");
  EXPECT_NE(problem_after([](auto& spans) { spans[1].links = {spans[2].context}; }), "");
  EXPECT_NE(problem_after([](auto& spans) { spans[0].links.pop_back(); }), "");
  EXPECT_NE(problem_after([](auto& spans) { spans[0].links.clear(); }), "");
  EXPECT_NE(problem_after([](auto& spans) { spans[0].links.push_back(Wait(1)); }), "");
  EXPECT_NE(problem_after([](auto& spans) { spans[0].parent = Wait(1); }), "");
  EXPECT_NE(problem_after([](auto& spans) { spans.erase(spans.begin()); }), "");
  EXPECT_NE(problem_after([](auto& spans) { spans[1].attributes.erase(telemetry::kPassId); }), "");
}

TEST_F(StepTraceTest, APromptInThreePasses) {
  testing::TableModelOptions model;
  model.max_rows = 64;
  Start({}, model);
  std::vector<uint32_t> prompt(150, 3);
  Harness::Send(stream_, {Traced(FirstStep(1, prompt), Wait(1))});
  target_->device->RunOnce();
  ASSERT_EQ(target_->device->load().passes(), 1u);
  // A round of another sequence shares the second one.
  Harness::Send(stream_, {Traced(FirstStep(2, kPrompt), Wait(2))});
  target_->RunAll();
  const auto verdicts = stream_.sink->Take();
  ASSERT_EQ(verdicts.size(), 2u);
  EXPECT_EQ(verdicts[0].pass_id(), 2u);
  EXPECT_EQ(verdicts[1].pass_id(), 3u);
  const auto spans = tracer_.Take();
  EXPECT_EQ(LinkProblems(spans), "");
  const auto passes = Named(spans, telemetry::kPassSpan);
  ASSERT_EQ(passes.size(), 3u);
  EXPECT_EQ(passes[0].links, std::vector<SpanContext>{Wait(1)});
  EXPECT_EQ(passes[1].links.size(), 2u);
  EXPECT_EQ(passes[2].links, std::vector<SpanContext>{Wait(1)});
  const auto steps = Named(spans, telemetry::kStepSpan);
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0].parent, Wait(2));
  EXPECT_EQ(steps[0].links, std::vector<SpanContext>{passes[1].context});
  EXPECT_EQ(steps[1].parent, Wait(1));
  EXPECT_EQ(steps[1].links, std::vector<SpanContext>{passes[2].context});
  EXPECT_EQ(steps[1].number(telemetry::kRows), 150);
  EXPECT_EQ(steps[1].number(telemetry::kQueued), 0);
  EXPECT_EQ(steps[1].number(telemetry::kComputed), 9000);
  EXPECT_EQ(steps[1].duration(), 3 * kPass);
}

TEST_F(StepTraceTest, RefusedStepsHaveNoPass) {
  Options options;
  options.max_sequences = 1;
  Start(options);
  // Refused before the device sees them.
  internal::v1::Step invalid = FirstStep(1, kPrompt);
  invalid.add_parents(0);
  EXPECT_EQ(Refused(invalid, internal::v1::STATUS_INVALID).duration(), absl::ZeroDuration());
  internal::v1::Step unknown = FirstStep(1, kPrompt);
  unknown.GetReflection()->MutableUnknownFields(&unknown)->AddVarint(999, 1);
  Refused(unknown, internal::v1::STATUS_INVALID);
  // By the device's thread.
  Refused(MakeStep(1, 1, kPrompt, 5), internal::v1::STATUS_NEED_PREFIX);
  Refused(MakeStep(1, 1, kPrompt, 0), internal::v1::STATUS_INVALID);  // no options
  ASSERT_EQ(target_->Ask(stream_, FirstStep(1, kPrompt)).status(), internal::v1::STATUS_OK);
  Refused(FirstStep(2, kPrompt), internal::v1::STATUS_NO_SLOT);
  Refused(MakeStep(1, 1, kPrompt, 5), internal::v1::STATUS_STALE);
  target_->device->Drain();
  Refused(FirstStep(2, kPrompt), internal::v1::STATUS_DRAINING);
  // Those that are open go on, and are seen.
  const internal::v1::Verdict verdict =
      target_->Ask(stream_, Traced(MakeStep(1, 2, kPrompt, 5), Wait(1)));
  EXPECT_EQ(verdict.status(), internal::v1::STATUS_OK);
  const auto spans = tracer_.Take();
  EXPECT_EQ(LinkProblems(spans), "");
  EXPECT_EQ(spans.size(), 2u);
}

TEST_F(StepTraceTest, WhatEndsWhileItWaitsHasNoPass) {
  Start();
  internal::v1::Step hurried = Traced(FirstStep(1, kPrompt), Wait(1));
  hurried.set_remaining_us(2000);
  Harness::Send(stream_, {hurried, Traced(FirstStep(2, kPrompt), Wait(2))}, {2});
  clock_->Advance(absl::Milliseconds(2));
  target_->RunAll();
  auto spans = tracer_.Take();
  EXPECT_EQ(LinkProblems(spans), "");
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans[0].text(telemetry::kStatus), "EXPIRED");
  EXPECT_EQ(spans[0].number(telemetry::kQueued), 2000);
  EXPECT_EQ(spans[0].number(telemetry::kRows), 0);
  EXPECT_EQ(spans[1].text(telemetry::kStatus), "CLOSED");
  EXPECT_TRUE(spans[1].links.empty());
  EXPECT_EQ(stream_.sink->Take().size(), 2u);

  // And what nobody reads an answer of.
  Harness::Send(stream_, {Traced(FirstStep(3, kPrompt), Wait(3)), FirstStep(4, kPrompt)});
  clock_->Advance(absl::Milliseconds(1));
  stream_.session->OnDone(absl::CancelledError("cut"));
  target_->RunAll();
  spans = tracer_.Take();
  ASSERT_EQ(spans.size(), 1u);
  EXPECT_EQ(spans[0].parent, Wait(3));
  EXPECT_EQ(spans[0].failure, "its stream ended");
  EXPECT_EQ(spans[0].text(telemetry::kErrorType), "CANCELLED");
  EXPECT_EQ(spans[0].duration(), absl::Milliseconds(1));
  EXPECT_TRUE(spans[0].links.empty());
}

// A Step with `more` of which all is held: nothing is computed, and so no pass decides it.
TEST_F(StepTraceTest, NothingToComputeIsNoPass) {
  Start();
  internal::v1::Step more = FirstStep(1, kPrompt);
  more.set_more(true);
  ASSERT_EQ(target_->Ask(stream_, more).status(), internal::v1::STATUS_OK);
  more = MakeStep(1, 2, kPrompt, 5);
  more.set_more(true);
  ASSERT_EQ(target_->Ask(stream_, Traced(more, Wait(1))).status(), internal::v1::STATUS_OK);
  const auto spans = tracer_.Take();
  ASSERT_EQ(spans.size(), 1u);
  EXPECT_EQ(LinkProblems(spans), "");
  EXPECT_EQ(spans[0].text(telemetry::kStatus), "OK");
  EXPECT_EQ(spans[0].number(telemetry::kRows), 0);
}

TEST_F(StepTraceTest, AFailedPassIsAnErrorAndItsStepsLinkToIt) {
  Start();
  failure_ = absl::InternalError("out of order");
  Harness::Send(stream_, {Traced(FirstStep(1, kPrompt), Wait(1)),
                          Traced(FirstStep(2, kPrompt), Wait(2)), FirstStep(3, kPrompt)});
  target_->RunAll();
  auto spans = tracer_.Take();
  EXPECT_EQ(LinkProblems(spans), "");
  ASSERT_EQ(spans.size(), 3u);
  EXPECT_EQ(spans[0].failure, "out of order");
  EXPECT_EQ(spans[0].text(telemetry::kErrorType), "INTERNAL");
  EXPECT_EQ(spans[0].number(telemetry::kPassId), 1);
  EXPECT_EQ(spans[0].number(telemetry::kPassSequences), 3);
  for (int i : {1, 2}) {
    EXPECT_EQ(spans[i].text(telemetry::kStatus), "INTERNAL");
    EXPECT_EQ(spans[i].failure, "INTERNAL");
    EXPECT_EQ(spans[i].text(telemetry::kErrorType), "INTERNAL");
    EXPECT_EQ(spans[i].number(telemetry::kPassId), 1);
  }
  // What is refused afterwards has nothing to do with it.
  Refused(MakeStep(1, 2, kPrompt, 5), internal::v1::STATUS_NEED_PREFIX);
}

TEST_F(StepTraceTest, AStepThatNothingCanBeDrawnForLinksToItsPass) {
  testing::TableModelOptions model;
  model.peakedness = std::nan("");
  Start({}, model);
  const auto verdict = target_->Ask(stream_, Traced(FirstStep(1, kPrompt), Wait(1)));
  ASSERT_EQ(verdict.status(), internal::v1::STATUS_INTERNAL);
  const auto spans = tracer_.Take();
  EXPECT_EQ(LinkProblems(spans), "");
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans[0].failure, std::nullopt) << "the pass did what it should";
  EXPECT_EQ(spans[1].failure, "INTERNAL");
  EXPECT_EQ(spans[1].links.size(), 1u);
}

}  // namespace
}  // namespace tandem::target_service::step_trace_test
