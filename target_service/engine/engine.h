// What a target service asks of whatever computes its model.
//
//   Open     room for one sequence
//   Launch   a pass: rows of several sequences, and what is wanted of each; returns at once
//   Await    what the oldest pass that was launched gave
//
// No logits cross this seam: a row of them is as long as the vocabulary, and 64 sequences of 5
// rows at 128k tokens are 164 MB per pass. The engine judges rows where they lie: it makes p of the
// logits and applies the target's half of the rule (common/acceptance/rule.h). Entries and log
// probabilities come back. The tokens that penalties look back at are the engine's too.
//
// cpu_engine.h is the reference: with the same model another engine gives the same entries.
// Nothing here includes gRPC or a generated proto, so an engine may be built on LibTorch, which
// brings an older Protobuf.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/acceptance/rule.h"
#include "common/sampling/logprobs.h"
#include "common/speculation/candidate_tree.h"
#include "common/speculation/sequence_settings.h"
#include "model/language_model.h"

namespace tandem::target_service {

// What an engine offers. Fixed once it is made.
struct EngineInfo {
  model::ModelInfo model;  // vocabulary_size: ids below it are tokens, all others have p = 0

  // A sequence whose rule is not among them is refused by name (step_check.h).
  std::vector<acceptance::Rule> rules;  // at least one
  bool logprobs = false;                // of blocks and of prompts; false: refused by name
  bool trees = false;  // blocks that branch, under the rules that have them (acceptance/tree.h)

  int64_t pool_tokens = 0;  // that all sequences have room for together; 0: it does not say
  int page_tokens = 1;      // a sequence reserves whole pages of so many
  // Tokens that one sequence may have: the context length, or the whole pool if that is less.
  uint32_t max_length() const {
    const int64_t context = model.context_length;
    return static_cast<uint32_t>(pool_tokens > 0 ? std::min(pool_tokens, context) : context);
  }

  int max_rows = 0;  // of a pass
  // Numbers of rows that a pass is filled up to, because they are computed as one shape (a CUDA
  // graph a size, say); ascending, the last is max_rows. Empty: every number of rows is a size of
  // its own.
  std::vector<int> row_buckets;

  // Faster ways of computing that failed the device's self-check, so that slower ones serve:
  // "spans-graphs".
  std::vector<std::string> switched_off;

  // Passes that may be launched and not awaited; at least 1. With 2 the device computes one while
  // the service answers the one before and forms the next.
  int max_passes_in_flight = 1;
};

// One sequence as its engine holds it: keys and values, and which tokens these are of. Its
// destructor gives its room back; no pass in flight has it then. It ends before its engine.
class EngineSequence {
 public:
  virtual ~EngineSequence() = default;
  // Tokens that there is room for; at least what Open was asked for.
  virtual int max_length() const = 0;
  // Tokens at its beginning that others may share: no part starts before these.
  virtual int shared() const { return 0; }
};

// Rows of one sequence. Tokens, block, targets and the sequence are the caller's, and stay as they
// are until the pass was awaited.
struct PassPart {
  EngineSequence* sequence = nullptr;  // once in all passes in flight

  // By what rows are judged. The same object for as long as nothing in it changes, so that an
  // engine may keep what it made of it (tables on a device). Another one may come with any part.
  std::shared_ptr<const speculation::SequenceSettings> settings;

  // The position of tokens[0], from EngineSequence::shared() to as many as the sequence holds. What
  // it held from there on is dropped.
  int start = 0;

  // At least one, all of them in the vocabulary: a draft token outside it is a 0 here. They are
  // held from then on, draft tokens too; of a tree those that stand.
  absl::Span<const uint32_t> tokens;

  // What is judged: the row of the last committed token, and one row per draft token, so the last
  // 1 + block->size() rows. With the ids as they were sent: one outside the vocabulary has p = 0.
  // Each q is empty, which is one-hot, or gives its draft token more than 0. Null: tokens are
  // committed, and there is more.
  //
  // A tree (block->parents is not empty; only where EngineInfo::trees) is judged by a rule that has
  // trees. After the pass the sequence holds the committed tokens and those of the path that
  // stands.
  const speculation::CandidateTree* block = nullptr;

  // The log probability of prompt_targets[i] after tokens[i] is wanted; tokens are committed as
  // far as that. At most tokens.size(); settings->logprobs is there. Empty: none are wanted.
  absl::Span<const uint32_t> prompt_targets;

  // Tokens of the sequence that are not draft tokens, these included.
  uint32_t committed() const {
    const size_t candidates = block != nullptr ? block->size() : 0;
    return static_cast<uint32_t>(start) + static_cast<uint32_t>(tokens.size() - candidates);
  }
};

struct PartResult {
  // INTERNAL: a row is not a distribution (a NaN or an infinity in the model's output), so nothing
  // can be drawn from it. The other parts of the pass are not touched by that.
  absl::Status status;
  std::vector<acceptance::Entry> entries;  // of the block: 1 + draft tokens; else none
  std::vector<uint32_t> path;  // of a tree: the nodes that stand (acceptance::Decision::path)
  std::vector<sampling::NodeLogprobs> logprobs;         // one per entry, where settings have them
  std::vector<sampling::NodeLogprobs> prompt_logprobs;  // one per prompt target
};

struct PassResult {
  absl::Status status;            // not OK: what its sequences hold is not known, they have to end
  absl::Duration computed;        // what the device took for it; also when it failed
  std::vector<PartResult> parts;  // one a part, in their order; none where the status is not OK
};

// A pass that was run to see what it takes.
struct ProbedPass {
  // What there was room for, at most what was asked for; 0: none, and nothing was run.
  int rows = 0;
  absl::Duration computed;
};

// Thread safety: info() from anywhere; all else from one thread at a time, the device's.
class Engine {
 public:
  virtual ~Engine() = default;

  virtual const EngineInfo& info() const = 0;

  // Reserves room for max_length tokens, 1 to the context length. RESOURCE_EXHAUSTED: there is
  // none now.
  virtual absl::StatusOr<std::unique_ptr<EngineSequence>> Open(int max_length) = 0;
  // Begins a sequence that holds nothing yet with what is known of a prefix, and shares what a
  // sequence holds: as LanguageModel has them.
  virtual int Recall(EngineSequence& /*sequence*/, const model::CachePrefix& /*prefix*/) {
    return 0;
  }
  virtual void Share(EngineSequence& /*sequence*/, const model::CachePrefix& /*prefix*/) {}
  // The most that Open would reserve now; absent: it is not known.
  virtual std::optional<int64_t> free_tokens() const { return std::nullopt; }

  // At least one part, at most max_rows rows, fewer than max_passes_in_flight in flight. What
  // goes wrong is told by Await.
  virtual void Launch(std::vector<PassPart> parts) = 0;

  // Waits for the oldest pass in flight; there is one.
  virtual PassResult Await() = 0;

  // Asked after a pass failed, with others possibly in flight; as LanguageModel::DeviceStatus.
  virtual absl::Status DeviceStatus() { return absl::OkStatus(); }

  // Runs a pass of scratch sequences that asks for the logits of all its rows, as verification
  // does. Weights that passes read from a file are read from the disk (LanguageModel::DropPages),
  // so that the time is what a pass takes at worst. No pass is in flight. An engine that must warm
  // up does so here.
  virtual absl::StatusOr<ProbedPass> Probe(int rows) = 0;
};

}  // namespace tandem::target_service
