// The drafter interface: four verbs, a file a drafter.
//
//   begin    DrafterFactory makes a Drafter for one sequence
//   propose  the next block after the committed tokens
//   accept   committed tokens changed: keep `keep` of them, then `tokens` follow
//   end      the destructor
//
// A drafter that looks something up answers Propose at once. One that runs a model is a
// ForwardDrafter: it says which part of a pass it wants next, so that the service can put those of
// all sequences into one.
//
// Whether a drawn token reaches the verifier must not depend on its value: a drafter that samples
// never drops, filters or exchanges a token that it has drawn. (Dropping a token because its q is
// low shifts the output; tests/integration and tests/draft_service have negative controls.) A chain
// may end by its tokens (BlockShape::min_confidence) only where none is drawn from a q: under rules
// greedy and coupled, which emit the target's own token whatever was drafted.
//
// Thread safety: one thread at a time, the draft service's executor.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/speculation/candidate_tree.h"
#include "common/speculation/proposal.h"
#include "common/speculation/sequence_settings.h"
#include "model/language_model.h"

namespace tandem::draft_service {

using speculation::CandidateTree;
using speculation::Proposal;

// What is asked for.
struct BlockShape {
  uint32_t max_draft_tokens = 1;  // on one path; at least 1
  uint32_t max_nodes = 0;         // of a tree; 0: a chain. A drafter that makes no trees is told 0
  // Of a chain: it ends behind the first draft token at which the chance that all so far are
  // accepted, as the drafter estimates it, is below this. 0: it does not. Drafters without such an
  // estimate ignore it. Only for sequences whose draft tokens are not drawn from a q
  // (CandidateDraw::sends_q).
  double min_confidence = 0;
  // Of a chain without min_confidence, by a drafter that prepares: outcomes of the block for which
  // blocks may be made in advance (ForwardDrafter), at most kMaxOutcomes. It changes no block.
  // Others ignore it.
  uint32_t max_outcomes = 0;
};

inline constexpr uint32_t kMaxOutcomes = 16;

// A block that was made in advance: for the outcome that the first `node` draft tokens of its base
// stand, and that `next_token` follows.
struct PreparedBlock {
  uint32_t node = 0;
  uint32_t next_token = 0;
  std::vector<uint32_t> tokens;  // at least one
};

class ForwardDrafter;

class Drafter {
 public:
  virtual ~Drafter() = default;

  // The committed tokens are now the first `keep` of those before, then `tokens`. Called before the
  // first Propose with keep = 0 and the prompt. keep is at most the committed count before.
  virtual absl::Status Accept(uint32_t keep, absl::Span<const uint32_t> tokens) = 0;

  // At most `max_draft_tokens` (at least 1) draft tokens to follow the committed tokens: a chain,
  // and without an id, which is the service's to give. None is always legal.
  virtual absl::StatusOr<CandidateTree> Propose(uint32_t max_draft_tokens) = 0;

  // The same as a tree (DrafterFactory::trees): siblings are different tokens, and it has no q.
  virtual absl::StatusOr<CandidateTree> ProposeTree(const BlockShape& shape) {
    return Propose(shape.max_draft_tokens);
  }

  // Tokens that it looked for among those of other sequences of its cache_scope, and how many of
  // them it found there and did not compute.
  struct Recalled {
    uint64_t looked_for = 0;
    uint64_t found = 0;
  };
  // Since the call before.
  virtual Recalled TakeRecalled() { return {}; }

  // Itself, if its work is a model's passes; else null.
  virtual ForwardDrafter* forward_drafter() { return nullptr; }
};

// A drafter whose work is a model's passes, done by its caller:
//
//   Accept(keep, tokens)         notes them; reading a long prompt becomes work
//   BeginBlock(shape)            a block becomes work
//   while wanted().total() > 0:  NextPart → Forward, with the parts of other sequences → ReadLogits
//   EndBlock()                   what has been drafted, also before all work is done
//
// Accept and EndBlock may come between any two parts, so a block can be given up or cut short at
// any time. Every token that was drawn is in the block that EndBlock gives: a cut only keeps the
// next one from being drawn. The service cuts by time alone; BlockShape::min_confidence is the
// drafter's.
//
// A block depends on the committed tokens alone, not on how its parts were cut or batched
// (model/language_model.h, row invariance).
//
// Between blocks it may prepare: make the next block for likely outcomes of the one before, the
// base.
//
//   BeginBlock(shape with max_outcomes) … EndBlock   the base
//   BeginPreparing()                                 becomes work
//   while wanted().preparing > 0: as above
//   Prepared()                                       blocks, each equal to what BeginBlock with the
//                                                    base's shape would make after Accept with the
//                                                    tokens of its outcome
//   AcceptPrepared(node, next_token)                 instead of Accept: its block is the base now
//
// Accept ends it at any time, and BeginBlock does. Rows that turn out to be of committed tokens are
// kept.
class ForwardDrafter : public Drafter {
 public:
  // What is left until a row of logits is required, or nothing.
  struct Wanted {
    int reading = 0;   // rows that need no logits; they come first
    int drafting = 0;  // 1: then the row whose logits decide the next draft token. With guesses any
                       // number of all rows may come first, as of a tree
    // Rows of blocks in advance, which all get logits; then there are no others. Any number of them
    // may come first.
    int preparing = 0;
    int total() const { return reading + drafting + preparing; }
  };

  // The model that computes its parts; outlives it.
  virtual model::LanguageModel& model() = 0;

  // The next block. The one before has ended. Of a tree all rows get logits; of several that are
  // wanted, any number may come first.
  virtual void BeginBlock(const BlockShape& shape) = 0;
  virtual Wanted wanted() const = 0;
  // Of wanted(), the first `max_rows` rows (at least 1) or all; not called when nothing is wanted.
  // Its tokens are valid until the next call of another function. At most one row of it, the last,
  // gets logits; of a part that grows a tree all do, and of one with guesses (cascade.h) the last
  // ones.
  virtual model::ForwardPart NextPart(int max_rows) = 0;
  // The last part was computed. `logits`: of its rows that get some, one after the other; empty
  // when none does. An error ends the drafter.
  virtual absl::Status ReadLogits(absl::Span<const float> logits) = 0;
  // Without a block that began: an empty one.
  virtual CandidateTree EndBlock() = 0;

  // Whether it can make blocks in advance. Those that cannot are told of none of it.
  virtual bool prepares() const { return false; }
  // The last block has ended, was begun with max_outcomes above 0 as BlockShape says, and has a
  // draft token; or it is what AcceptPrepared or CutBase left.
  virtual void BeginPreparing() {}
  // What was made, the likeliest outcome first. Call when nothing is wanted.
  virtual std::vector<PreparedBlock> Prepared() const { return {}; }
  // Nothing more is wanted; what has been made stays.
  virtual void StopPreparing() {}
  // The base is cut to its first `nodes` draft tokens, at most all. What was prepared is dropped.
  virtual void CutBase(uint32_t /*nodes*/) {}
  // The outcome of one of Prepared() came true: its tokens are committed, and its block is the
  // base.
  virtual void AcceptPrepared(uint32_t /*node*/, uint32_t /*next_token*/) {}

  // With passes of its own: what a caller does that has this sequence alone.
  absl::StatusOr<CandidateTree> Propose(uint32_t max_draft_tokens) final;
  absl::StatusOr<CandidateTree> ProposeTree(const BlockShape& shape) final;
  ForwardDrafter* forward_drafter() final { return this; }

 private:
  absl::StatusOr<CandidateTree> RunPasses();
};

// One a kind of drafter, made at start-up.
struct DrafterFactory {
  std::string name;  // as in Open.drafter
  // `settings`: as the draft is told them (sequence_settings.h). `proposal`: as in Open.proposal.
  std::function<absl::StatusOr<std::unique_ptr<Drafter>>(
      const speculation::SequenceSettings& settings, Proposal proposal)>
      make;
  // It can draw from a q and send that. One that cannot is never asked to: a sequence that wants
  // Proposal::kSampled is refused by name, since it would get something else. kGreedy asks only
  // that q be one-hot, which every drafter can do.
  bool samples = true;
  // It makes trees. One that does not is never asked to: a sequence that wants them is refused by
  // name.
  bool trees = false;
  // It makes blocks in advance for sequences whose draft tokens are not drawn from a q.
  bool prepares = false;
};

}  // namespace tandem::draft_service
