// The one thread that owns the model: takes what waits, forms a pass, runs it, answers.
//
//   gRPC's threads ──▶ StepQueue ──▶ RunOnce: take in ▶ form a pass ▶ model step ▶ judge ──▶ sinks
//
// Every Step of a Batch gets exactly one verdict, unless its stream ends before. What goes into a pass
// is the policy's choice (pass_policy.h), by what passes were measured to cost.
//
// device_executor.cc: events and streams; device_pass.cc: passes; device_load.cc: what is told of them.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "common/concurrency/clock.h"
#include "common/concurrency/mutex.h"
#include "common/scheduling/cost_curve.h"
#include "model/language_model.h"
#include "target_service/gathering.h"
#include "target_service/options.h"
#include "target_service/pass_observer.h"
#include "target_service/pass_policy.h"
#include "target_service/sequence_table.h"
#include "target_service/step_queue.h"
#include "target_service/work.h"

namespace tandem::target_service {

class DeviceExecutor {
 public:
  // `options` are valid for the model, with judge and clock set. Makes no thread: its owner calls Run on
  // one, and a test RunOnce. Neither is running while MeasurePasses does. `observer` is not owned.
  DeviceExecutor(const Options& options, std::unique_ptr<model::LanguageModel> model,
                 PassObserver& observer = NoObserver());
  ~DeviceExecutor();

  // Learns what passes cost, for about options.measure.
  void MeasurePasses();

  // From any thread.
  const model::ModelInfo& model_info() const { return model_->info(); }
  const concurrency::Clock& clock() const { return clock_; }
  StepQueue& queue() { return queue_; }
  StreamId NewStreamId() { return ++last_stream_; }
  void Drain() { draining_ = true; }
  void Stop() { queue_.Close(); }  // Run returns when all that was queued is done
  size_t active_sequences() const { return active_sequences_; }  // with those that linger
  size_t lingering_sequences() const { return lingering_sequences_; }
  absl::Duration busy_for() const;
  // As of now, with the whole cost curve; free_slots: of anybody.
  v1::Load load() const TANDEM_EXCLUDES(load_mutex_);

  // The device's thread.
  void Run();
  // Takes in all that is queued and runs at most one pass. False: there was nothing to do, or what waits is
  // held up for a moment (gathering.h).
  bool RunOnce();
  // When there is something to do though no event comes; infinite: never.
  absl::Duration next_expiry() const { return table_.next_expiry(); }

 private:
  // A stream that asked for nothing for so long does not compete.
  static constexpr absl::Duration kActive = absl::Seconds(1);
  // A client is told the cost curve again when a point has changed by more than this share.
  static constexpr double kCurveChange = 0.2;

  void TakeIn(StepEvent event);
  void TakeIn(StreamBegins event);
  void TakeIn(BatchArrives event);
  void TakeIn(StreamFinishes event);
  void TakeIn(StreamEnds event);
  void TakeIn(AllEnd);
  void TakeStep(Stream& stream, CheckedStep step, absl::Duration arrived);
  void CloseSequence(Stream& stream, uint64_t sequence);
  void EndFinishedStreams();

  void ExpireWaiting();
  void AnswerRefused(Work& work, messages::Refusal refusal);
  void AnswerRefused(Stream& stream, RefusedStep step, absl::Duration arrived);
  void RemoveAnswered();
  void Flush();
  void SendVerdicts(Stream& stream, v1::Verdicts verdicts);

  bool RunPass();
  std::vector<Grant> ChoosePass();
  int ActiveStreams() const;
  bool Gathers() const;
  void FailPass(const std::vector<Grant>& grants, const absl::Status& status);
  absl::Status TakeRows(Work& work, absl::Span<const uint32_t> tokens, const model::Logits& logits,
                        int first_row);
  void EndFaulty(Work& work, const absl::Status& status);
  void Complete(Work& work, const model::Logits& logits, int first_row);

  v1::Load CurrentLoad() const;
  v1::Load LoadFor(Stream& stream);
  void TellLoad() TANDEM_EXCLUDES(load_mutex_);

  const Options options_;
  const uint32_t vocabulary_size_;
  const std::unique_ptr<model::LanguageModel> model_;
  const concurrency::Clock& clock_;
  PassObserver& observer_;
  const absl::Duration started_;

  StepQueue queue_;
  std::atomic<StreamId> last_stream_{0};
  std::atomic<bool> draining_{false};
  std::atomic<size_t> active_sequences_{0};
  std::atomic<size_t> lingering_sequences_{0};
  std::atomic<int64_t> busy_since_ns_{0};  // 0: waiting

  mutable concurrency::Mutex load_mutex_;
  v1::Load load_ TANDEM_GUARDED_BY(load_mutex_);  // but for idle_us

  // The device's thread alone.
  scheduling::CostCurve curve_;
  PassPolicy policy_;
  Gathering gathering_;
  SequenceTable table_;
  absl::flat_hash_map<StreamId, std::unique_ptr<Stream>> streams_;
  std::vector<std::unique_ptr<Work>> waiting_;  // in the order of arrival
  uint64_t passes_ = 0;                         // the number of the last pass
  uint64_t pass_rows_ = 0;
  uint64_t pass_sequences_ = 0;
  absl::Duration busy_;
};

}  // namespace tandem::target_service
