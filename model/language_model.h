// What the services ask of a model: one pass for prefill, decode and verification, and a cache that
// rolls back. No tensor type appears here, so a service can be tested without LibTorch.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tandem::model {

// What the model's files say of how tokens are drawn, where a request says nothing; what they do
// not say is absent. Ranges as in SamplingParameters (common/sampling/parameters.h).
struct SamplingDefaults {
  std::optional<double> temperature;  // 0: greedy
  std::optional<uint32_t> top_k;      // 0: all
  std::optional<double> top_p;
  std::optional<double> min_p;
  std::optional<double> repetition_penalty;

  bool operator==(const SamplingDefaults&) const = default;
};

struct ModelInfo {
  uint32_t vocabulary_size = 0;         // logits per row; may be padded beyond the tokenizer's
  uint32_t context_length = 0;          // max. tokens of a sequence, prompt and output together
  std::vector<uint32_t> eos_token_ids;  // ids that end a text; may be empty
  std::string model_id;                 // content id of config and weights
  std::string numerics_id;              // dtype, kernels: equal ids, equal bits
  SamplingDefaults sampling_defaults;   // no part of model_id
};

// Keys and values of one sequence. A model makes it, and only that model extends it.
//
// Thread safety: none; one thread at a time.
//
// The lag invariant: after a whole block was accepted the cache of a *draft* is one token short,
// because the draft never computed its own last draft token. The next pass feeds the missing token
// first. Nothing here assumes that a cache holds all committed tokens: length() says what it holds.
class Cache {
 public:
  virtual ~Cache() = default;
  virtual int length() const = 0;      // tokens held
  virtual int max_length() const = 0;  // room reserved by NewCache
  // Rolls back; shared() <= length <= length(). O(1) in tokens.
  virtual void Truncate(int length) = 0;
  // Tokens at its beginning that other caches may share, so that it cannot drop them.
  virtual int shared() const { return 0; }

  // Rolls back to one path through the part that was computed last. Of its rows those of `path`
  // stay, next to each other, and length() becomes what it was before that part, plus path.size().
  // The first row of the path has parent -1, and each other row has the one before it in the path
  // as its parent; so they ascend. An empty path drops the whole part. At most path.size() rows
  // move, of a chain none. A path that breaks these rules is a TANDEM_CHECK.
  virtual void Keep(absl::Span<const int> path) = 0;
};

// One sequence's part of a pass: `tokens` are appended to the cache.
//
// A chain: token i stands at position length() + i and sees all that is before it.
//
// A tree (`parents` not empty): parents[i], below i, is the index of the token that token i
// follows; -1: it follows what the cache held before. A token stands at position length() + its
// depth (0 where the parent is -1), and sees what the cache held, its ancestors and itself. The
// cache takes all tokens, needs room for all of them, and counts them all in length(); before its
// next pass only one path of them may be left: Keep, or Truncate to where nothing has branched yet.
//
// A part that `grows` goes on with the tree, or the chain, that the cache's last parts made since
// the last one that did not grow: together they are one tree. Its parents number the rows of all of
// them, in the order in which they came, and its own rows come after those. Keep then names rows of
// the whole.
struct ForwardPart {
  Cache* cache = nullptr;              // not owned; each cache at most once in a pass
  absl::Span<const uint32_t> tokens;   // at least one, each below vocabulary_size
  int first_logits_row = 0;            // rows from this one on get logits; tokens.size(): none do
  absl::Span<const int> parents = {};  // one per token, -1 to the token's index - 1; empty: a chain
  bool grows = false;                  // with parents alone
};

// Logits of the rows that asked for them: the parts in order, each part's rows in order.
struct Logits {
  const float* data = nullptr;  // [rows, vocabulary_size], row-major
  int rows = 0;
  int vocabulary_size = 0;

  absl::Span<const float> row(int i) const {
    return {data + static_cast<size_t>(i) * vocabulary_size, static_cast<size_t>(vocabulary_size)};
  }
};

// What a cache begins with, and who may share it: those of the same scope. Views; no part is kept.
struct CachePrefix {
  absl::string_view scope;
  absl::Span<const uint32_t> tokens;
};

// Room for the caches of all sequences, in tokens.
struct CacheRoom {
  int64_t tokens = 0;   // of all caches together
  int64_t free = 0;     // not reserved: the longest cache that could be made now. What is kept for
                        // later caches to begin with counts as free: it gives way
  int page_tokens = 1;  // a cache reserves whole pages of so many
};

// Thread safety: info() from anywhere; everything else from one thread at a time (the device's).
class LanguageModel {
 public:
  virtual ~LanguageModel() = default;

  virtual const ModelInfo& info() const = 0;

  // A cache with room for max_length tokens (1 to context_length, else INVALID_ARGUMENT).
  // RESOURCE_EXHAUSTED: the pool has no room.
  virtual absl::StatusOr<std::unique_ptr<Cache>> NewCache(int max_length) = 0;
  // Absent: the model does not say. `tokens` never changes.
  virtual std::optional<CacheRoom> room() const { return std::nullopt; }

  // Begins an empty cache with what is known of the prefix, so that it need not be computed:
  // returns its length from now on, a part of the prefix or 0. The rows after it are the same bits
  // as without.
  virtual int Recall(Cache& /*cache*/, const CachePrefix& /*prefix*/) { return 0; }
  // The cache's first tokens are the prefix. Later caches may begin with them, for as long as
  // nobody needs their room. They are shared from now on, as far as the model shares them.
  virtual void Share(Cache& /*cache*/, const CachePrefix& /*prefix*/) {}

  // Runs a ragged batch: any mix of prefill, decode and verify parts, at most max_rows() rows
  // together. The result is valid until the next pass.
  //
  // The logits of a row depend on that sequence's tokens alone: not on the other parts, not on how
  // many rows there are, not on how the tokens were cut into passes, not on what was rolled back
  // before. In a tree they depend on the tokens of the row's own path alone.
  //
  // INVALID_ARGUMENT, and nothing is changed: an id is out of range, parents are out of order, or a
  // cache is of another model, comes twice, has no room, or still holds several branches of a tree.
  virtual absl::StatusOr<Logits> Forward(absl::Span<const ForwardPart> parts) = 0;

  // Asked after a pass failed. OK: the next one may succeed. Otherwise the device is lost to this
  // process (a CUDA error that stays, a card that is gone), and the status says what it reports.
  virtual absl::Status DeviceStatus() { return absl::OkStatus(); }

  virtual int max_rows() const = 0;  // of one pass

  // Of a model whose passes read weights from its files: what the system happens to hold of them in
  // memory is dropped, so that the next pass takes what passes take at worst. It changes no result.
  virtual void DropPages() {}

  // Calls work(i) once for each i below `count`, in any order, and returns when all have returned.
  // A model whose passes run on several threads calls it on those, several at once. The last pass's
  // logits may be read meanwhile; `work` must not call the model.
  virtual void ForEach(int count, absl::FunctionRef<void(int i)> work) {
    for (int i = 0; i < count; ++i) work(i);
  }
};

}  // namespace tandem::model
