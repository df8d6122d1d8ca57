// The one thread that owns the model: takes what waits, forms a pass, runs it, answers.
//
//   gRPC's threads ──▶ StepQueue ──▶ RunOnce: take in ▶ form a pass ▶ model step ▶ judge ──▶ sinks
//
// Every Step of a Batch gets exactly one verdict, unless its stream ends before.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "common/concurrency/clock.h"
#include "model/language_model.h"
#include "target_service/options.h"
#include "target_service/pass_policy.h"
#include "target_service/sequence_table.h"
#include "target_service/step_queue.h"

namespace tandem::target_service {

class DeviceExecutor {
 public:
  // `options` are valid for the model, with judge and clock set. Makes no thread: its owner calls Run on
  // one, and a test RunOnce.
  DeviceExecutor(const Options& options, std::unique_ptr<model::LanguageModel> model);
  ~DeviceExecutor();

  // From any thread.
  const model::ModelInfo& model_info() const { return model_->info(); }
  const concurrency::Clock& clock() const { return clock_; }
  StepQueue& queue() { return queue_; }
  StreamId NewStreamId() { return ++last_stream_; }
  void Drain() { draining_ = true; }
  void Stop() { queue_.Close(); }  // Run returns when all that was queued is done
  size_t active_sequences() const { return active_sequences_; }
  absl::Duration busy_for() const;

  // The device's thread.
  void Run();
  // Takes in all that is queued and runs at most one pass. False: there was nothing to do.
  bool RunOnce();

 private:
  struct Work;
  struct Stream;

  void TakeIn(StepEvent event);
  void TakeIn(StreamBegins event);
  void TakeIn(BatchArrives event);
  void TakeIn(StreamFinishes event);
  void TakeIn(StreamEnds event);
  void TakeStep(Stream& stream, CheckedStep step, absl::Duration arrived);
  void CloseSequence(Stream& stream, uint64_t sequence);

  void ExpireWaiting();
  bool RunPass();
  void FailPass(const std::vector<Grant>& grants, const absl::Status& status);
  void Complete(Work& work, const model::Logits& logits, int first_row);
  void AnswerRefused(Work& work, rpc::Refusal refusal);
  void RemoveAnswered();
  void Flush();

  v1::Load CurrentLoad() const;

  const Options options_;
  const uint32_t vocabulary_size_;
  const std::unique_ptr<model::LanguageModel> model_;
  const concurrency::Clock& clock_;
  const PassLimits pass_limits_;

  StepQueue queue_;
  std::atomic<StreamId> last_stream_{0};
  std::atomic<bool> draining_{false};
  std::atomic<size_t> active_sequences_{0};
  std::atomic<int64_t> busy_since_ns_{0};  // 0: waiting

  // The device's thread alone.
  SequenceTable table_;
  absl::flat_hash_map<StreamId, std::unique_ptr<Stream>> streams_;
  std::vector<std::unique_ptr<Work>> waiting_;  // in the order of arrival
  uint64_t last_pass_ = 0;
};

}  // namespace tandem::target_service
