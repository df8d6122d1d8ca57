// One span an Advance that is sampled, with exact times, and none that is not.
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "common/concurrency/instant.h"
#include "common/telemetry/attributes.h"
#include "tests/draft_service/serving/observed.h"
#include "tests/draft_service/serving/slow_drafter.h"
#include "tests/support/allocations.h"

namespace tandem::draft_service {
namespace {

class DraftSpans : public DraftObserved {
 protected:
  // Asks and waits, and gives the one span of it.
  FakeSpan SpanOf(const internal::v1::DraftRequest& request, internal::v1::Status status) {
    const internal::v1::Block block = draft_.Ask(stream_, request);
    EXPECT_EQ(block.status(), status) << block.ShortDebugString();
    FakeSpan span = TheSpan();
    EXPECT_EQ(span.name, "draft_service.propose");
    EXPECT_EQ(span.kind, telemetry::SpanKind::kServer);
    EXPECT_EQ(telemetry::ToBytes(span.parent), request.advance().trace().value());
    EXPECT_EQ(absl::StrCat("STATUS_", span.text(telemetry::kStatus)),
              internal::v1::Status_Name(status));
    EXPECT_EQ(static_cast<uint64_t>(span.number(telemetry::kQueued)), block.queued_us());
    EXPECT_EQ(static_cast<uint64_t>(span.number(telemetry::kComputed)), block.computed_us());
    EXPECT_EQ(span.number(telemetry::kDrafted), block.tokens_size());
    EXPECT_EQ(span.duration(),
              absl::Microseconds(static_cast<int64_t>(block.queued_us() + block.computed_us())));
    return span;
  }
};

TEST_F(DraftSpans, ABlockIsASpanFromItsArrivalToItsAnswer) {
  stream_.Send(MakeOpen(1, kPrompt));
  draft_.RunAll();
  const concurrency::Instant arrived = draft_.clock.Now();
  stream_.Send(Traced(MakeAdvance(1, 1, kPrompt, 5, 4), Context(7)));
  draft_.clock.Advance(absl::Microseconds(350));  // the drafting thread was busy
  draft_.RunAll();
  ASSERT_EQ(stream_.sink->Take().size(), 1u);
  const FakeSpan span = TheSpan();
  EXPECT_EQ(span.name, telemetry::kDraftServiceSpan);
  EXPECT_EQ(span.kind, telemetry::SpanKind::kServer);
  EXPECT_EQ(span.parent, Context(7));
  EXPECT_EQ(span.context.trace_id, Context(7).trace_id);
  EXPECT_EQ(span.began, arrived);
  EXPECT_EQ(span.ended, arrived + absl::Microseconds(350) + 4 * kPassTime);
  EXPECT_EQ(span.number(telemetry::kQueued), 350);
  EXPECT_EQ(span.number(telemetry::kComputed), 400);
  EXPECT_EQ(span.number(telemetry::kDrafted), 4);
  EXPECT_EQ(span.number(telemetry::kMaxTokens), 4);
  EXPECT_EQ(span.text(telemetry::kStatus), "OK");
  EXPECT_EQ(span.text(telemetry::kDrafter), "model");
  EXPECT_EQ(span.text(telemetry::kRpcSystem), "grpc");
  EXPECT_EQ(span.text(telemetry::kRpcMethod), "tandem.internal.v1.Draft/Propose");
  EXPECT_EQ(span.attributes.size(), 8u);
  EXPECT_FALSE(span.failure.has_value());
}

TEST_F(DraftSpans, EveryEndingIsOneSpan) {
  for (uint64_t sequence : {1, 2, 3, 4}) stream_.Send(MakeOpen(sequence, kPrompt));
  draft_.RunAll();
  EXPECT_FALSE(
      SpanOf(Traced(MakeAdvance(1, 5, kPrompt, 5), Context(1)), internal::v1::STATUS_OK).failure);
  EXPECT_FALSE(SpanOf(Traced(MakeAdvance(1, 5, kPrompt, 5), Context(2)), internal::v1::STATUS_STALE)
                   .failure);
  EXPECT_FALSE(
      SpanOf(Traced(MakeAdvance(1, 6, kPrompt, 4), Context(3)), internal::v1::STATUS_OK).failure);
  internal::v1::DraftRequest other = MakeAdvance(1, 7, kPrompt, 5);
  other.mutable_advance()->mutable_prefix()->set_hash(1);
  const FakeSpan unmatched = SpanOf(Traced(other, Context(4)), internal::v1::STATUS_NEED_PREFIX);
  EXPECT_EQ(unmatched.number(telemetry::kMaxTokens), 4);
  EXPECT_EQ(unmatched.text(telemetry::kDrafter), "model");
  EXPECT_FALSE(unmatched.failure);

  // Refused as a whole, when it arrived.
  internal::v1::DraftRequest malformed = MakeAdvance(1, 8, kPrompt, 5);
  malformed.mutable_advance()->mutable_prefix()->add_tokens(8);
  const FakeSpan failed = SpanOf(Traced(malformed, Context(5)), internal::v1::STATUS_INVALID);
  EXPECT_EQ(failed.failure, "INVALID");
  EXPECT_EQ(failed.text(telemetry::kErrorType), "INVALID");
  // Of a sequence that nobody opened, and of one that found no slot.
  const FakeSpan unknown =
      SpanOf(Traced(MakeAdvance(9, 1, kPrompt, 5), Context(6)), internal::v1::STATUS_INVALID);
  EXPECT_FALSE(unknown.attributes.contains(telemetry::kDrafter));
  SpanOf(Traced(MakeAdvance(4, 1, kPrompt, 5), Context(7)), internal::v1::STATUS_NO_SLOT);

  // Over before it was drafted: the time that it waited is all of it.
  stream_.Send(Traced(MakeLateAdvance(2, 1, kPrompt, 5, 4, absl::Milliseconds(2)), Context(8)));
  draft_.clock.Advance(absl::Milliseconds(3));
  draft_.RunAll();
  FakeSpan span = TheSpan();
  EXPECT_EQ(span.text(telemetry::kStatus), "EXPIRED");
  EXPECT_EQ(span.duration(), absl::Milliseconds(3));
  EXPECT_EQ(span.number(telemetry::kQueued), 3000);
  EXPECT_EQ(span.number(telemetry::kComputed), 0);

  // Closed after one pass.
  stream_.Send(Traced(MakeAdvance(2, 2, kPrompt, 5), Context(9)));
  draft_.executor->RunOnce();
  EXPECT_TRUE(tracer_.Finished().empty());
  stream_.Send(MakeClose(2));
  draft_.RunAll();
  span = TheSpan();
  EXPECT_EQ(span.text(telemetry::kStatus), "CLOSED");
  EXPECT_EQ(span.number(telemetry::kComputed), 100);
  EXPECT_EQ(span.number(telemetry::kDrafted), 0);

  // The stream breaks, with one at work and one that was not even looked at.
  stream_.sink->Take();
  stream_.Send(Traced(MakeAdvance(3, 1, kPrompt, 5), Context(10)));
  draft_.executor->RunOnce();
  stream_.session->OnDone(absl::CancelledError("gone"));
  draft_.RunAll();
  span = TheSpan();
  EXPECT_EQ(span.parent, Context(10));
  EXPECT_EQ(span.text(telemetry::kStatus), "CLOSED");
  EXPECT_EQ(span.duration(), kPassTime);
  EXPECT_TRUE(stream_.sink->Take().empty());
  auto brief = draft_.Connect();
  brief.Send(MakeOpen(1, kPrompt));
  brief.Send(Traced(MakeAdvance(1, 1, kPrompt, 5), Context(11)));
  brief.session->OnDone(absl::CancelledError("gone"));
  draft_.RunAll();
  EXPECT_EQ(TheSpan().text(telemetry::kStatus), "CLOSED");
}

TEST_F(DraftSpans, WhatIsNotSampledMakesNoSpan) {
  stream_.Send(MakeOpen(1, kPrompt));
  draft_.Ask(stream_, MakeAdvance(1, 1, kPrompt, 5));
  draft_.Ask(stream_, Traced(MakeAdvance(1, 2, kPrompt, 5), Context(1, /*sampled=*/false)));
  // Of another length: refused, and there is nothing to hang a span on.
  internal::v1::DraftRequest request = MakeAdvance(1, 3, kPrompt, 5);
  request.mutable_advance()->mutable_trace()->set_value("x");
  EXPECT_EQ(draft_.Ask(stream_, request).problem().field(), "trace.value");
  EXPECT_EQ(tracer_.asked(), 0u);
}

// Wherever a drafter spends its time, the Block says so, and the client does not take it for the
// network's.
TEST(DraftSpanTime, ASlowDraftIsComputing) {
  testing::FakeClock tracer_clock;
  FakeTracer tracer(tracer_clock);
  testing::TableModel model({});
  Harness* harness = nullptr;
  Options options;
  options.tracer = &tracer;
  options.drafters = {SlowDrafterFactory(ModelDrafterFactory(model, {}), [&harness] {
    harness->clock.Advance(absl::Milliseconds(20));
  })};
  Harness draft(options);
  harness = &draft;
  auto stream = draft.Connect();
  stream.Send(MakeOpen(1, kPrompt));
  const internal::v1::Block block =
      draft.Ask(stream, Traced(MakeAdvance(1, 1, kPrompt, 5), Context(1)));
  EXPECT_EQ(block.tokens_size(), 4);
  EXPECT_EQ(block.computed_us(), 20'000u);
  EXPECT_EQ(block.queued_us(), 0u);
  ASSERT_EQ(tracer.Finished().size(), 1u);
  EXPECT_EQ(tracer.Finished()[0].duration(), absl::Milliseconds(20));
}

TEST(DraftSpanCost, WhatIsNotSampledAllocatesNothing) {
  testing::FakeClock clock;
  FakeTracer tracer(clock);
  DraftObserver observer(&tracer, "a-model");
  EndedAdvance advance{.status = internal::v1::STATUS_OK,
                       .drafter = "model",
                       .max_draft_tokens = 4,
                       .drafted = 4,
                       .arrived = clock.Now(),
                       .ended = clock.Now() + absl::Milliseconds(3)};
  const int64_t before = testing::Allocations();
  observer.OnEnded(advance);
  EXPECT_EQ(testing::Allocations(), before);
  advance.trace = Context(1);  // and one that is sampled does, so the counting works
  observer.OnEnded(advance);
  EXPECT_GT(testing::Allocations(), before);
  ASSERT_EQ(tracer.Finished().size(), 1u);
  EXPECT_EQ(tracer.Finished()[0].text(telemetry::kGenAiModel), "a-model");
}

}  // namespace
}  // namespace tandem::draft_service
