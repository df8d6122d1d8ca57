// The one thread that drafts: it alone calls the drafters, and so the draft model. All sequences at
// work advance together, one Step of the model at a time (step_batcher.h).
//
//   gRPC's threads ──▶ queue ──▶ RunOnce: take in ▶ cut what is late ▶ one Step ──▶ sinks
//
// An Advance that arrives is in the next Step; its Block goes out when it is whole, waiting for no
// other. Every Advance gets exactly one Block, unless its stream ends before.
//
// When the time that an Advance allows is over, what has been drafted is its Block. That is exact:
// every token that was drawn is sent, and whether the next one is drawn is decided before, by the
// clock alone.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/concurrency/bounded_queue.h"
#include "common/concurrency/clock.h"
#include "common/messages/refusal.h"
#include "draft_service/draft_events.h"
#include "draft_service/draft_observer.h"
#include "draft_service/load_meter.h"
#include "draft_service/options.h"
#include "draft_service/sequence_table.h"
#include "draft_service/step_batcher.h"
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
  void TakeIn(AdvanceArrives event);
  void TakeIn(CloseArrives event);
  void TakeIn(StreamFinishes event);
  void TakeIn(StreamEnds event);
  void TakeIn(DrainBegins) {}  // the thread is awake: that was it
  void TakeIn(AllEnd);

  // Begin.
  void OpenSequence(Sequence& sequence, const CheckedOpen& open);
  std::optional<messages::Refusal> MakeDrafter(Sequence& sequence, const CheckedOpen& open);
  // Accept and propose. A refusal is the answer to the Advance.
  std::optional<messages::Refusal> BeginAdvance(Sequence& sequence, const CheckedAdvance& advance,
                                                absl::Duration arrived);
  absl::Status AcceptPrefix(Sequence& sequence, const v1::Prefix& prefix, uint32_t standing);
  void ProposeAtOnce(Sequence& sequence, absl::Duration began);
  // End.
  void Erase(Sequence& sequence);
  void EraseStream(StreamId stream);

  void CutLate();
  bool StepAll();
  bool StepOnce(StepBatcher& batcher);
  // Into its model's Steps while it wants rows, and out of them.
  void JoinOrLeave(const Sequence& sequence);
  void Leave(const Sequence& sequence);

  // The one answer of an unanswered Advance.
  void AnswerDrafted(Sequence& sequence, const DraftedBlock& drafted);
  void AnswerRefused(Sequence& sequence, messages::Refusal refusal);
  void Answer(Sequence& sequence, v1::Block block);
  // Its stream ended.
  void DropUnanswered(const Sequence& sequence);
  DraftedBlock EndBlock(Sequence& sequence);  // counted as computed
  messages::Refusal Fail(Sequence& sequence, const absl::Status& status);

  // The Block of `advance`, whose status, candidates and end are filled in here.
  void Send(StreamId stream, v1::Block block, EndedAdvance advance);
  void EndFinished();
  void HandOver(const std::vector<StreamId>& streams);
  void Report();

  const Options options_;
  const concurrency::Clock& clock_;
  concurrency::BoundedQueue<DraftEvent> queue_{size_t{1} << 20};
  std::atomic<StreamId> last_stream_{0};
  std::atomic<bool> draining_{false};
  std::atomic<size_t> active_sequences_{0};
  LoadMeter load_;
  DraftObserver observer_;

  // The drafting thread alone.
  SequenceTable table_;
  std::map<model::LanguageModel*, StepBatcher> batchers_;
  std::map<uint64_t, Sequence*> at_work_;  // in a batcher, by id
};

}  // namespace tandem::draft_service
