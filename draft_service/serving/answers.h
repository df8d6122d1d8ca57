// The one Block of each Advance, as it goes out: with its times, once the observer has heard of it.
// And Blocks that were made in advance. Those of a stream that are there together go out in one
// message, with the load of that moment.
//
// Thread safety: the drafting thread alone.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/concurrency/clock.h"
#include "common/messages/refusal.h"
#include "common/speculation/candidate_tree.h"
#include "draft_service/serving/draft_observer.h"
#include "draft_service/serving/streams.h"
#include "tandem/internal/v1/draft.pb.h"

namespace tandem::draft_service {

internal::v1::Block RefusedBlock(base::SequenceId sequence, uint64_t round,
                                 messages::Refusal refusal);

// Status OK. CHECKs that q is empty or one per token, and each token below `vocabulary_size`.
internal::v1::Block DraftedReply(base::SequenceId sequence, uint64_t round,
                                 const speculation::CandidateTree& drafted,
                                 uint32_t vocabulary_size);

// The same of a block that was made in advance: it is not an answer, `block_id` is not 0, and what
// it assumes is left to the caller.
internal::v1::Block PreparedReply(base::SequenceId sequence, uint64_t round, base::BlockId block_id,
                                  absl::Span<const uint32_t> tokens, uint32_t vocabulary_size);

class Answers {
 public:
  // All references outlive it. `load`: as of now.
  Answers(const concurrency::Clock& clock, Streams& streams, DraftObserver& observer,
          std::function<v1::Load()> load)
      : clock_(clock), streams_(streams), observer_(observer), load_(std::move(load)) {}

  // The Block that the stream is owed. What of `advance` shows in the Block (status, draft tokens,
  // end) is filled in here, and so are the times in the Block.
  void Put(Stream& stream, internal::v1::Block block, EndedAdvance advance);
  // Blocks that answer nothing, as they are, one after the other.
  void Put(Stream& stream, std::vector<internal::v1::Block> blocks);
  // Sends what was put.
  void Send();
  void Send(Stream& stream);
  // An Advance is over whose stream is gone: nothing is sent.
  void Drop(EndedAdvance advance);

 private:
  const concurrency::Clock& clock_;
  Streams& streams_;
  DraftObserver& observer_;
  const std::function<v1::Load()> load_;
};

}  // namespace tandem::draft_service
