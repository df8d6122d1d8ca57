// Blocks that a draft model makes in advance: after a chain of draft tokens, the base, has gone to
// the target, one for each of the likeliest outcomes. An outcome is the number of draft tokens that
// stand (its node) and the token that follows them.
//
//   AddToBase …               while the base is drafted: what ranked at each of its positions
//   Begin                     the base is whole
//   while wanted() > 0: Add   a row each: first that of the base's last token, then one more token
//                             of each branch at a time
//   Blocks                    what came of it
//   MoveTo                    an outcome has come true: its block is the base now
//
// The score of an outcome is the chance that the first draft tokens stand, by the odds of each
// (outcome_odds.h), times the chance of the token that follows. Before the base's end that is none
// of the base's: the second, the third in rank. The best max_outcomes get a branch, none below
// kMinChance. A branch is as long as the block that would be made for its outcome, and each of its
// tokens is what ranks first after the tokens of its path: so it is that block.
//
// Which outcomes get one depends on values. So it serves rules that emit the target's own tokens
// whatever is drafted: greedy and coupled.
//
// The cache is the caller's. A row is numbered from the row of the last committed token on, which
// is 0: row i is the base's draft token i, as long as no other row has come.
//
// Thread safety: none of its own; one sequence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "absl/types/span.h"
#include "common/sampling/distribution.h"
#include "draft_service/drafters/drafter.h"
#include "draft_service/drafters/outcome_odds.h"

namespace tandem::draft_service {

class Preparation {
 public:
  using Ranking = std::vector<sampling::RankedToken>;  // the best first

  // For less it is not worth a row.
  static constexpr double kMinChance = 0.01;

  // `max_outcomes`: at least 1. `max_draft_tokens`: of a block, at least 1. `odds` outlive it.
  Preparation(uint32_t max_outcomes, uint32_t max_draft_tokens, OutcomeOdds& odds);

  // What ranked after the base so far. The first is the base's next draft token. None: nothing can
  // follow, and the base ends.
  void AddToBase(Ranking ranking);
  const std::vector<uint32_t>& base() const { return base_.tokens; }
  // The base is its first `nodes` draft tokens from now on, at most all. Before Begin, or it begins
  // anew: rows that came are forgotten.
  void CutBase(size_t nodes);

  // `room`: tokens that the model's context has behind the committed ones. `free_rows`: that the
  // cache can take.
  void Begin(size_t room, size_t free_rows);
  bool begun() const { return begun_; }
  // No row is wanted any more.
  void Stop() { next_.clear(); }

  // Rows that are wanted now; none of them follows another.
  size_t wanted() const { return next_.size(); }
  struct Row {
    uint32_t token = 0;
    int parent = 0;  // a row
  };
  Row WantedRow(size_t i) const;
  // The first of them is that of the base's last token.
  bool first_is_base() const { return next_.front() == kBase; }
  // The tokens from the committed ones to the first wanted row's, and that.
  std::vector<uint32_t> FirstPath() const;
  // The first wanted row was computed, as row `row`, and this ranks behind it.
  void Add(int row, Ranking ranking);

  // Of all branches that have a token: the likeliest outcome first. Call when nothing is wanted.
  std::vector<PreparedBlock> Blocks() const;

  // The rows of a branch that `tokens` follow, after `node` draft tokens of the base. Without rows:
  // they follow none.
  struct Path {
    size_t node = 0;
    std::vector<int> rows;
  };
  Path Follow(absl::Span<const uint32_t> tokens) const;

  // The outcome came true: its block, which is one of Blocks(), is the base, and nothing has begun.
  void MoveTo(uint32_t node, uint32_t next_token);

  // A block, as far as it came.
  struct Chain {
    std::vector<uint32_t> tokens;
    // [i]: what ranks after the first i tokens. One more than tokens, once the last one's row was
    // computed, or if nothing can follow.
    std::vector<Ranking> rankings;
  };
  // Of the branch whose outcome `tokens` are; empty if they are not a branch's.
  Chain BlockAfter(absl::Span<const uint32_t> tokens) const;

  // The tokens that were committed after the base's root, for the odds.
  void Learn(absl::Span<const uint32_t> tokens);

 private:
  struct Branch {
    uint32_t node = 0;
    uint32_t next_token = 0;
    double score = 0;
    Chain block;
    std::vector<int> rows;  // of next_token and the block's tokens, as far as they came

    uint32_t last() const { return block.tokens.empty() ? next_token : block.tokens.back(); }
  };
  static constexpr size_t kBase = SIZE_MAX;

  bool base_is_known() const { return base_.rankings.size() > base_.tokens.size(); }
  size_t LengthAfter(size_t node) const;
  void Choose();
  const Branch* Find(uint32_t node, uint32_t next_token) const;

  const uint32_t max_outcomes_;
  const uint32_t max_draft_tokens_;
  OutcomeOdds& odds_;
  Chain base_;
  bool begun_ = false;
  size_t room_ = 0;
  size_t free_rows_ = 0;
  std::vector<Branch> branches_;  // by their score, the best first
  std::deque<size_t> next_;       // branches that want a row, or kBase
};

}  // namespace tandem::draft_service
