// Drafts by n-grams of the text so far: what followed the last tokens most often is proposed. No
// model; the "context n-gram" of N-Grammys (Stewart et al. 2024, arXiv 2411.03786), as a chain
// or as a tree.
//
// The query is the text's last tokens, one by default, which the paper finds best. All its earlier
// occurrences are guesses. At each place of the block the token is taken that most of the
// guesses have there, of equals the one that occurred later, and the guesses that have
// another one are left out. So prompt lookup proposes what followed once, the last time, and this
// drafter what follows as a rule. The block ends where no draft token goes on.
//
// As a tree the guesses share their beginnings: a trie of what followed the occurrences, as many
// tokens deep as a path may have. N-Grammys verify k guesses of w tokens, a row each; in a trie
// equal beginnings are one row. Which nodes are in it is decided from the best on: the score of a
// node is the product over its path of c / (n + 1), where n places follow the node above and c of
// them have the node's token; the one more is for what the text has not had there, so that a long
// guess that came once does not stand before many short ones. Of equals the one that occurred later
// comes first.
//
// Of a query with very many occurrences the latest kMaxOccurrences count. So a block takes some
// 30 µs at most, however long and however monotonous the text is (bench/README.md).
//
// A block is a function of the committed tokens alone. Its q is one-hot, so it is exact under every
// rule. What it finds is proposed whatever the options say of it: a banned token stays in the block
// and has p = 0 at the target. So sampling options, rule and seed change nothing here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "draft_service/drafters/drafter.h"
#include "draft_service/ngrams/ngram_index.h"

namespace tandem::draft_service {

struct ContextNgramOptions {
  static constexpr size_t kMaxOccurrences = 512;

  std::string name = "context-ngram";
  int query = 1;  // tokens; 1 to 8
};

class ContextNgram final : public Drafter {
 public:
  // Scratch space, used within a call alone: drafters on one thread share it.
  class TokenCounts;
  static std::shared_ptr<TokenCounts> MakeCounts();

  // `query`: 1 to 8.
  ContextNgram(int query, std::shared_ptr<TokenCounts> counts);

  absl::Status Accept(uint32_t keep, absl::Span<const uint32_t> tokens) override;
  absl::StatusOr<CandidateTree> Propose(uint32_t max_draft_tokens) override;
  absl::StatusOr<CandidateTree> ProposeTree(const BlockShape& shape) override;

  // For a drafter that grows its tree from this one and another source (mixed.h).

  // Positions of the text that a guess goes on with, the latest first. Those that Occurrences gives
  // are at most kMaxOccurrences. Valid until the text changes.
  using Places = std::vector<uint32_t>;
  struct Follower {
    uint32_t token;
    double weight;  // c / (n + 1)
    Places places;  // that follow it; empty where the text ends
  };
  Places Occurrences() const;  // that follow the text's last tokens
  // The tokens at these places, which are distinct, the one at the latest place first.
  std::vector<Follower> Followers(absl::Span<const uint32_t> places) const;
  // What is left for a token that the text has not had there: 1 / (n + 1).
  static double WeightOfTheNew(absl::Span<const uint32_t> places);

 private:
  // The token that most of these places have, of equals the one of the latest place. At least one.
  uint32_t Commonest(absl::Span<const uint32_t> places) const;

  std::vector<uint32_t> text_;
  NgramIndex index_;
  const std::shared_ptr<TokenCounts> counts_;
};

DrafterFactory ContextNgramFactory(ContextNgramOptions options = {});

}  // namespace tandem::draft_service
