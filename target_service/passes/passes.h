// Forms passes out of what waits, has the engine compute them, and hands on what they gave.
//
//   waiting ──▶ policy ──▶ Launch ──▶ … the engine … ──▶ Await ──▶ answers
//
// What goes into a pass is the policy's choice (pass_policy.h), by what passes were measured to
// cost. As many are in flight as the engine takes: with one, a pass is launched and awaited at
// once; with two, the next one is formed and launched while the first is computed.
//
// Thread safety: the device's thread alone.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "absl/time/time.h"
#include "common/concurrency/clock.h"
#include "common/scheduling/cost_curve.h"
#include "common/serving/load_meter.h"
#include "target_service/answers/answers.h"
#include "target_service/answers/pass_observer.h"
#include "target_service/answers/streams.h"
#include "target_service/engine/engine.h"
#include "target_service/passes/gathering.h"
#include "target_service/passes/pass_policy.h"
#include "target_service/passes/waiting_steps.h"

namespace tandem::target_service {

class Passes {
 public:
  // All of them outlive this.
  Passes(const PassLimits& limits, Engine& engine, WaitingSteps& waiting, Streams& streams,
         Gathering& gathering, Answers& answers, const concurrency::Clock& clock,
         serving::LoadMeter& meter, PassObserver& observer);

  // Learns what passes cost, for about `time`. Nothing waits and no pass is in flight.
  void Measure(absl::Duration time);

  // Launches a pass, awaits the oldest one, or both. False: there is nothing to launch now and
  // none in flight.
  bool Advance();
  // Until no pass is in flight. What is about to end a sequence calls it first.
  void AwaitAll();
  // The oldest pass in flight; there is one.
  void Await();
  // What waits is held up for a moment (gathering.h).
  bool Gathers() const;

  // What the last pass took for prompts and replays from `arrived` on. For work that arrived during
  // that pass and is taken in behind it; each pass counts it for the work that waits by then.
  absl::Duration PrefillSince(concurrency::Instant arrived) const;

  // Not OK: the engine's device is lost, and no pass will succeed.
  const absl::Status& device_status() const { return device_status_; }

  const scheduling::CostCurve& curve() const { return curve_; }
  // Of the next pass of rounds: the rows that it aims at, and the rounds that it takes however many
  // rows they have.
  int RowsAimedAt() const { return policy_.RowsAimedAt(curve_, Compete()); }
  int MinRounds() const { return PassPolicy::MinRounds(Compete()); }
  // Draft tokens per round, a moving average.
  double draft_tokens() const { return draft_tokens_; }

 private:
  struct Flight {
    concurrency::Instant began;  // as far as it is known before it has ended
    bool behind = false;         // another pass: it begins when that one ends
    uint32_t rows = 0;
    uint32_t prefill = 0;  // of these, prompts and replays
    std::vector<Work*> works;
  };

  bool Compete() const { return ActiveStreams(streams_, clock_.Now()) > 1; }
  bool Launch();
  void CountPrefill(const Flight& flight);
  void Fail(const Flight& flight, const absl::Status& status);

  Engine& engine_;
  WaitingSteps& waiting_;
  Streams& streams_;
  Gathering& gathering_;
  Answers& answers_;
  const concurrency::Clock& clock_;
  serving::LoadMeter& meter_;
  PassObserver& observer_;

  PassPolicy policy_;
  scheduling::CostCurve curve_;
  double draft_tokens_ = 0;
  uint64_t last_id_ = 0;
  absl::Status device_status_;
  std::deque<Flight> flights_;                  // the oldest first
  concurrency::Instant last_begin_, last_end_;  // of a pass
  double prefill_share_ = 0;                    // of its time: prompts and replays
};

}  // namespace tandem::target_service
