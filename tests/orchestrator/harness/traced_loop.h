// A loop whose rounds are traced and recorded, and what must hold of both.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/concurrency/instant.h"
#include "common/telemetry/attributes.h"
#include "orchestrator/request/request_observer.h"
#include "tests/orchestrator/harness/loop_harness.h"
#include "tests/support/fake_tracer.h"

namespace tandem::orchestrator {

// A round's span and those under it, in the order in which they began.
struct RoundSpans {
  testing::FakeSpan round;
  std::vector<testing::FakeSpan> propose;
  std::vector<testing::FakeSpan> verify;

  bool decided() const { return round.attributes.contains(telemetry::kStageOwn); }
};

// Of all spans, sorted by their beginning. Fails the test when one hangs nowhere.
std::vector<RoundSpans> RoundsOf(const std::vector<testing::FakeSpan>& spans);

// What is wrong with a decided round; empty: nothing. Its span and its record tell the same; the
// stages are not negative and sum up to the round; draft.propose and the verify that brought
// answers last as long as draft, network, queue and device; children lie in the round, one after
// another, as many proposals as one at most.
std::string ProblemsOf(const RoundSpans& spans, const RoundRecord& record);

class TracedLoop {
 public:
  explicit TracedLoop(GenerationRequest request, HarnessOptions options = {});
  ~TracedLoop();

  // Until the request ends; `generate` is over then, too.
  void Run();
  // The request has ended; the loop is over with it.
  std::vector<RoundSpans> Rounds();
  // Expects of every decided round that there is nothing wrong with it, and that all spans have
  // ended.
  void ExpectSound();

  LoopHarness& harness() { return *harness_; }
  const std::vector<RoundRecord>& records() const { return records_; }
  testing::FakeTracer& tracer() { return *tracer_; }
  // The scripts, as those of the harness, which are taken. May be empty.
  std::function<FakeTarget::Do(const VerifyStep&, VerifyReply&)> on_step;
  std::function<FakeDraft::Do(const DraftAdvance&, DraftReplyBlock&)> on_advance;
  // Contexts of what was sent, in order; not valid where there was none.
  std::vector<telemetry::SpanContext> sent_steps;
  std::vector<telemetry::SpanContext> sent_advances;

 private:
  std::unique_ptr<RoundObserver> Watch(const testing::FakeClock& clock);
  void Finish();
  void Release();

  GenerationRequest request_;
  concurrency::Instant arrived_;
  std::unique_ptr<testing::FakeTracer> tracer_;
  std::unique_ptr<RequestObserver> generate_;
  std::vector<RoundRecord> records_;
  std::unique_ptr<LoopHarness> harness_;
  bool finished_ = false;
};

}  // namespace tandem::orchestrator
