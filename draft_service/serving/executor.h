// The one thread that drafts: it alone calls the drafters, and so the draft model. All sequences at
// work advance together, one pass of the model at a time.
//
//   RunOnce: take in ──▶ cut what is late ──▶ one pass ──▶ sinks
//
// This class says what comes after what; queue, streams and their ends are in
// common/serving/executor.h, a sequence's life in sequences.h, the way from an Advance to its Block
// in blocks.h, blocks in advance in prepared_blocks.h, the passes of the models in passes.h, Blocks
// that go out in answers.h.
#pragma once

#include <string>

#include "common/serving/executor.h"
#include "draft_service/passes/passes.h"
#include "draft_service/sequences/events.h"
#include "draft_service/sequences/sequences.h"
#include "draft_service/serving/answers.h"
#include "draft_service/serving/blocks.h"
#include "draft_service/serving/client_groups.h"
#include "draft_service/serving/draft_observer.h"
#include "draft_service/serving/options.h"
#include "draft_service/serving/prepared_blocks.h"
#include "draft_service/serving/streams.h"
#include "tandem/internal/v1/draft.pb.h"

namespace tandem::draft_service {

class Executor final : public serving::Executor<Stream, Arrival> {
 public:
  // `options` are valid, with the clock set.
  explicit Executor(const Options& options);
  ~Executor() override;

  // From any thread.
  v1::Load load() const { return meter().Snapshot(); }  // without a cost curve
  std::string MetricsText() const;

 private:
  void Wakes() override { meter().BeginWork(); }
  void Began(Stream& stream) override { stream.group = groups_.Join(stream.client_id); }
  void Handle(Arrival arrival) override;
  // Nothing is kept: a draft's state is cheap to build anew.
  void Free(Stream& stream, bool may_return) override;
  // One pass of each model at most.
  bool Compute() override;

  void HandleOne(OpenArrives open);
  void HandleOne(AdvanceArrives advance) { blocks_.Begin(std::move(advance)); }
  void HandleOne(SubmittedArrives submitted);
  void HandleOne(CloseArrives close);
  bool RunPasses();
  void HandOver();
  void Report();

  const std::string instance_id_;
  DraftObserver observer_;

  // The drafting thread alone.
  ClientGroups groups_;
  Answers answers_;
  Sequences sequences_;
  Passes passes_;
  PreparedBlocks prepared_;
  Blocks blocks_;
};

}  // namespace tandem::draft_service
