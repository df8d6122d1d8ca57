// The one thread that uses the engine: takes what comes of the streams, and has passes computed.
//
//   gRPC's threads ──▶ StepQueue ──▶ RunOnce: take in ▶ Passes ▶ Answers ▶ Streams ──▶ sinks
//
// Every Step of a Batch gets exactly one verdict, unless its stream ends before. This class takes
// events in and says what comes after what; who is connected is in streams.h, what waits in
// waiting_steps.h, sequences in sequence_table.h, passes in passes.h, verdicts in answers.h,
// reports in load_reports.h.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/time/time.h"
#include "common/concurrency/clock.h"
#include "target_service/answers.h"
#include "target_service/engine/engine.h"
#include "target_service/gathering.h"
#include "target_service/load_reports.h"
#include "target_service/options.h"
#include "target_service/pass_observer.h"
#include "target_service/passes.h"
#include "target_service/sequence_table.h"
#include "target_service/step_queue.h"
#include "target_service/streams.h"
#include "target_service/waiting_steps.h"

namespace tandem::target_service {

class DeviceExecutor {
 public:
  // `options` are valid for the engine, with the clock set. Makes no thread: its owner calls Run
  // on one, and a test RunOnce. Neither is running while MeasurePasses does. `observer` is not
  // owned.
  DeviceExecutor(const Options& options, std::unique_ptr<Engine> engine,
                 PassObserver& observer = NoObserver());
  ~DeviceExecutor();

  // Learns what passes cost, for about options.measure.
  void MeasurePasses();

  // From any thread.
  const EngineInfo& engine_info() const { return engine_->info(); }
  const concurrency::Clock& clock() const { return clock_; }
  StepQueue& queue() { return queue_; }
  StreamId NewStreamId() { return ++last_stream_; }
  void Drain() { draining_ = true; }
  void Stop() { queue_.Close(); }  // Run returns when all that was queued is done
  size_t active_sequences() const { return active_sequences_; }  // with those that linger
  size_t lingering_sequences() const { return lingering_sequences_; }
  absl::Duration busy_for() const { return passes_.busy_for(); }
  // As of now, with the whole cost curve; free_slots: of anybody.
  v1::Load load() const { return load_.Latest(); }

  // The device's thread.
  void Run();
  // Takes in all that is queued; then launches at most one pass and awaits at most one. False:
  // there was nothing to do, or what waits is held up for a moment (gathering.h).
  bool RunOnce();
  // When there is something to do though no event comes; infinite: never.
  concurrency::Instant next_expiry() const { return table_.next_expiry(); }

 private:
  void TakeIn(StepEvent event);
  void TakeIn(StreamBegins event);
  void TakeIn(BatchArrives event);
  void TakeIn(StreamFinishes event);
  void TakeIn(StreamEnds event);
  void TakeIn(AllEnd);
  void TakeStep(Stream& stream, CheckedStep step, concurrency::Instant arrived);
  void CloseSequence(StreamId stream, uint64_t sequence);
  void RefuseExpired();
  void EndFinishedStreams();
  void Flush();

  const Options options_;
  const std::unique_ptr<Engine> engine_;
  const concurrency::Clock& clock_;
  PassObserver& observer_;

  StepQueue queue_;
  std::atomic<StreamId> last_stream_{0};
  std::atomic<bool> draining_{false};
  std::atomic<size_t> active_sequences_{0};
  std::atomic<size_t> lingering_sequences_{0};

  // The device's thread alone.
  Gathering gathering_;
  SequenceTable table_;
  Streams streams_;
  WaitingSteps waiting_;
  Answers answers_;
  Passes passes_;
  LoadReports load_;
};

}  // namespace tandem::target_service
