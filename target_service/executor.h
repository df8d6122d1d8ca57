// The one thread that uses the engine: takes what comes of the streams, and has passes computed.
//
//   RunOnce: take in ──▶ WaitingSteps ──▶ Passes ──▶ Answers ──▶ sinks
//
// Every Step of a Batch gets exactly one verdict, unless its stream ends before. This class says
// what comes after what; queue, streams and their ends are in common/serving/executor.h, what waits
// in waiting_steps.h, what follows from verdicts in chained_steps.h, sequences in sequence_table.h,
// passes in passes.h, verdicts in answers.h, reports in load_reports.h.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/time/time.h"
#include "common/concurrency/instant.h"
#include "common/serving/executor.h"
#include "target_service/answers/answers.h"
#include "target_service/answers/pass_observer.h"
#include "target_service/answers/streams.h"
#include "target_service/engine/engine.h"
#include "target_service/events.h"
#include "target_service/options.h"
#include "target_service/passes/chained_steps.h"
#include "target_service/passes/gathering.h"
#include "target_service/passes/load_reports.h"
#include "target_service/passes/passes.h"
#include "target_service/passes/waiting_steps.h"
#include "target_service/sequences/sequence_table.h"

namespace tandem::target_service {

class Executor final : public serving::Executor<Stream, BatchArrives> {
 public:
  // `options` are valid for the engine, with the clock set. Neither Run nor RunOnce is running
  // while MeasurePasses does. `observer` is not owned.
  Executor(const Options& options, std::unique_ptr<Engine> engine,
           PassObserver& observer = NoObserver());
  ~Executor() override;

  // Learns what passes cost, for about options.measure.
  void MeasurePasses();

  // From any thread. active_sequences() has those that linger, too.
  const EngineInfo& engine_info() const { return engine_->info(); }
  size_t lingering_sequences() const { return lingering_sequences_; }
  // As of now, with the whole cost curve; free_slots: of anybody.
  v1::Load load() const { return load_.Latest(); }

  // The device's thread. When the first of what lingers goes; infinite: nothing lingers.
  concurrency::Instant next_expiry() const { return table_.next_expiry(); }

 private:
  void Began(Stream& stream) override;
  void Handle(BatchArrives event) override;
  void Free(Stream& stream, bool may_return) override;
  // Launches at most one pass and awaits at most one.
  bool Compute() override;
  concurrency::Instant WakesAt() const override;
  bool IsDone() override;

  void HandleStep(Stream& stream, CheckedStep step, concurrency::Instant arrived);
  void CloseSequence(StreamId stream, SequenceId sequence);
  void RefuseExpired();
  void Flush();

  const Options options_;
  const std::unique_ptr<Engine> engine_;
  PassObserver& observer_;
  std::atomic<size_t> lingering_sequences_{0};

  // The device's thread alone.
  Gathering gathering_;
  SequenceTable table_;
  WaitingSteps waiting_;
  Answers answers_;
  Passes passes_;
  ChainedSteps chained_;
  LoadReports load_;
};

}  // namespace tandem::target_service
