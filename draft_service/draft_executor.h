// The one thread that drafts: it alone calls the drafters, and so the draft model. All sequences at
// work advance together, one Step of the model at a time.
//
//   gRPC's threads ──▶ queue ──▶ RunOnce: take in ▶ cut what is late ▶ one pass ──▶ sinks
//
//   DraftStreams    who is connected, what goes back, how a stream ends   draft_streams.h
//   DraftSequences  a sequence's life                                     draft_sequences.h
//   DraftBlocks     from an Advance to its Block                          draft_blocks.h
//   DraftPasses     the Steps of the models                               draft_passes.h
#pragma once

#include <atomic>
#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/concurrency/bounded_queue.h"
#include "common/concurrency/clock.h"
#include "draft_service/draft_blocks.h"
#include "draft_service/draft_events.h"
#include "draft_service/draft_observer.h"
#include "draft_service/draft_passes.h"
#include "draft_service/draft_sequences.h"
#include "draft_service/draft_streams.h"
#include "draft_service/load_meter.h"
#include "draft_service/options.h"
#include "tandem/v1/draft.pb.h"

namespace tandem::draft_service {

class DraftExecutor {
 public:
  static constexpr size_t kMaxQueued = 16384;  // Opens and Advances

  // `options` are valid, with the clock set. Makes no thread: its owner calls Run on one, and a
  // test RunOnce.
  explicit DraftExecutor(const Options& options);
  ~DraftExecutor();

  // From any thread. RESOURCE_EXHAUSTED for an Open or an Advance when too many wait; other events
  // are never refused.
  absl::Status Push(DraftEvent event);
  const concurrency::Clock& clock() const { return clock_; }
  StreamId NewStreamId() { return ++last_stream_; }
  // As Service's.
  void Drain();
  void End() { Push(AllEnd()).IgnoreError(); }
  bool draining() const { return draining_; }
  void Stop() { queue_.Close(absl::CancelledError("the drafting thread ends")); }
  size_t active_sequences() const { return active_sequences_; }
  absl::Duration busy_for() const { return load_.working_for(); }
  v1::Load load() const { return load_.Snapshot(); }  // without a cost curve
  std::string MetricsText() const;

  // The drafting thread.
  void Run();  // until Stop; then what was queued is done
  // Takes in what is queued and runs at most one Step of each model. False: there was nothing to
  // do.
  bool RunOnce();

 private:
  void TakeIn(DraftEvent event);
  void TakeIn(StreamBegins event);
  void TakeIn(OpenArrives event);
  void TakeIn(AdvanceArrives event) { blocks_.Begin(std::move(event)); }
  void TakeIn(CloseArrives event);
  void TakeIn(StreamFinishes event) { streams_.MarkFinishing(event.stream); }
  void TakeIn(StreamEnds event);
  void TakeIn(DrainBegins) {}  // the thread is awake: that was it
  void TakeIn(AllEnd) { HandOver(streams_.All()); }

  bool RunPasses();
  void EndFinished();
  void HandOver(const std::vector<StreamId>& streams);
  void EraseStream(StreamId stream);  // with its sequences
  void Report();

  const std::string instance_id_;
  const concurrency::Clock& clock_;
  concurrency::BoundedQueue<DraftEvent> queue_{size_t{1} << 20};
  std::atomic<StreamId> last_stream_{0};
  std::atomic<bool> draining_{false};
  std::atomic<size_t> active_sequences_{0};
  LoadMeter load_;
  DraftObserver observer_;

  // The drafting thread alone.
  DraftStreams streams_;
  DraftSequences sequences_;
  DraftPasses passes_;
  DraftBlocks blocks_;
};

}  // namespace tandem::draft_service
