// From a row of the draft's logits, or from a q, to the next draft token, and to what is told of
// its q.
//
// The q of logits is made as the target makes its p, by the same options in the same order
// (sampling/logits.h, distribution.h), at the draft's own temperature: what differs from p is then
// the model alone. The penalties and the minimum of tokens see the committed tokens and the block's
// own draft tokens.
//
//   proposal  rule                         draft token                              sent as q
//   any       any, at temperature 0        the most likely, ties to the lowest id  nothing
//   greedy    any                          the same                                nothing
//   sampled   speculative, block, lenient  drawn from the top-m of q, rounded      those weights
//   sampled   coupled                      DrawRace(q), q whole and unrounded      nothing
//
// Nothing sent means one-hot. The race has the numbers with which the target draws its own token at
// this position: where p = q both draw the same. The other draw is keyed by the round
// (random::RoundKey) under the draft's derived seed.
//
// Thread safety: none of its own; one sequence.
//
// A token that a drafter below has guessed (cascade.h) is drawn by the same law. A guess that was
// itself drawn from a q is tested under rules that send one: it is accepted with probability min(1,
// q(x)/r(x)), r being what it was drawn from, and else replaced from the residual norm((q - r)+),
// so what comes out follows q (Leviathan et al. 2023, arXiv 2211.17192, algorithm 1 with the draft
// in the target's place). Those numbers have a level of their own (random::Uniform): the target's
// test of the token must not know them. In all other cases the token is drawn as if there was no
// guess.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/sampling/distribution.h"
#include "common/sampling/token_history.h"
#include "common/speculation/candidate_tree.h"
#include "common/speculation/proposal.h"
#include "common/speculation/sequence_settings.h"

namespace tandem::draft_service {

class CandidateDraw {
 public:
  // `proposal`: not kDefault. `top_m`: entries of q that are sent, 1 to
  // sampling::kMaxSparseEntries. `vocabulary_size`: ids below it are drawn; at least 1. `level`: of
  // its draws; 0: its draft tokens go to the target, 1: to the drafter above it.
  CandidateDraw(const speculation::SequenceSettings& settings, speculation::Proposal proposal,
                int top_m, uint32_t vocabulary_size, uint8_t level = 0);

  // As Drafter::Accept. Draft tokens drawn since the last call count no longer.
  void Accept(uint32_t keep, absl::Span<const uint32_t> tokens);
  // A block begins after `committed` tokens, all that were accepted. What the block before drew
  // counts no longer.
  void BeginBlock(uint32_t committed);
  // Draws the block's next draft token and appends it, with its q if one is sent. INTERNAL when the
  // logits hold a NaN or an infinity; NOT_FOUND when the options leave no token that has a logit,
  // which ends a block. Nothing is appended then.
  absl::Status Append(absl::Span<const float> logits, speculation::CandidateTree& block);
  // A token that was guessed.
  struct Guess {
    uint32_t token = 0;
    const sampling::SparseDistribution* q = nullptr;  // that it was drawn from; null: one-hot
    uint8_t level = 1;                                // of the numbers that test it
  };
  // The same of a token that was guessed. What the guess depends on: the tokens before, and numbers
  // of its own.
  absl::Status Append(absl::Span<const float> logits, const Guess& guess,
                      speculation::CandidateTree& block);
  // The same from a q that has its options already. Not empty; ids below the vocabulary's size.
  void Append(const sampling::Distribution& q, speculation::CandidateTree& block);

  // A token that was drawn before.
  void Add(uint32_t token, speculation::CandidateTree& block);

  // As the first Append, and returns what ranks first there (Rank), `count` tokens at most: the
  // first of them is the draft token. Not where it draws from q.
  absl::StatusOr<std::vector<sampling::RankedToken>> AppendRanked(
      absl::Span<const float> logits, size_t count, speculation::CandidateTree& block);

  // As the first Append, and returns the chance that the target draws the same, as Rank estimates
  // it among the first kRivals. Not where it draws from q.
  absl::StatusOr<double> AppendWithChance(absl::Span<const float> logits,
                                          speculation::CandidateTree& block);

  // Each draft token is the most likely one, so of q nothing else counts.
  bool takes_most_likely() const { return way_ == Way::kMostLikely; }
  // Each draft token has a q.
  bool sends_q() const { return way_ == Way::kFromQ; }

  // Of a tree: the `count` tokens that rank first after the committed ones and the tree's own on
  // the `path` to here, with the logarithms of their weights (which sum to 1 at most): estimates of
  // the chance that the target draws them. Under coupled the ranks of the race with the target's
  // noise; else the likeliest ones, at temperature 1. Errors as above. Not where it draws from q.
  absl::StatusOr<std::vector<sampling::RankedToken>> Rank(absl::Span<const float> logits,
                                                          absl::Span<const uint32_t> path,
                                                          size_t count);
  // The same from a q that has its options already, under kMostLikely at temperature 1; `path`
  // tokens of the tree lead to here. Not empty.
  std::vector<sampling::RankedToken> Rank(const sampling::Distribution& q, size_t path,
                                          size_t count) const;

 private:
  static constexpr size_t kRivals = 8;

  enum class Way : uint8_t { kMostLikely, kRace, kFromQ };
  static Way WayOf(const speculation::SequenceSettings& settings, speculation::Proposal proposal);
  absl::StatusOr<sampling::Distribution> QOf(absl::Span<const float> logits,
                                             const sampling::SamplingParameters& parameters) const;
  uint32_t PositionAfter(const speculation::CandidateTree& block) const;
  const Way way_;
  const sampling::SamplingParameters parameters_;       // kMostLikely: at temperature 0
  const sampling::SamplingParameters rank_parameters_;  // kMostLikely: at temperature 1
  const uint64_t seed_;
  const uint32_t sample_index_;
  const uint8_t level_;
  const int top_m_;
  const uint32_t vocabulary_size_;
  uint32_t committed_ = 0;
  // The committed tokens and the block's; empty unless the parameters look back.
  sampling::TokenHistory history_;
};

}  // namespace tandem::draft_service
