#include "draft_service/context_ngram.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "common/base/check.h"
#include "draft_service/ngram_index.h"

namespace tandem::draft_service {
namespace {

constexpr size_t kMaxOccurrences = ContextNgramOptions::kMaxOccurrences;

// Counts up to kMaxOccurrences tokens. To begin again takes O(1).
class TokenCounts {
 public:
  void Clear() {
    if (++generation_ == 0) {  // old slots would look new
      slots_.fill({});
      generation_ = 1;
    }
  }
  // Returns the token's count, this one included.
  uint32_t Add(uint32_t token) {
    Slot& slot = slots_[Place(token)];
    if (slot.generation != generation_) slot = {generation_, token, 0};
    return ++slot.count;
  }
  // Of a token that was added.
  uint32_t Of(uint32_t token) const { return slots_[Place(token)].count; }

 private:
  static constexpr int kBits = 11;
  static constexpr size_t kSlots = size_t{1} << kBits;
  static_assert(kSlots >= 2 * kMaxOccurrences);

  struct Slot {
    uint32_t generation = 0, token = 0, count = 0;
  };

  // The token's slot, or the free one that it would take.
  size_t Place(uint32_t token) const {
    size_t place = (token * 2654435761u) >> (32 - kBits);  // Knuth's multiplicative hash
    while (slots_[place].generation == generation_ && slots_[place].token != token) {
      place = (place + 1) % kSlots;
    }
    return place;
  }

  std::array<Slot, kSlots> slots_ = {};
  uint32_t generation_ = 0;
};

class ContextNgram final : public Drafter {
 public:
  // `counts` is used within a call alone, by one drafter at a time.
  ContextNgram(int query, std::shared_ptr<TokenCounts> counts)
      : index_(static_cast<size_t>(query)), counts_(std::move(counts)) {}

  absl::Status Accept(uint32_t keep, absl::Span<const uint32_t> tokens) override {
    TANDEM_CHECK(keep <= text_.size()) << keep << " of " << text_.size();
    while (text_.size() > keep) {
      index_.Removing(text_);
      text_.pop_back();
    }
    for (uint32_t token : tokens) {
      text_.push_back(token);
      index_.Appended(text_);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<CandidateTree> Propose(uint32_t max_draft_tokens) override {
    CandidateTree block;
    std::vector<uint32_t> places = Occurrences();
    while (!places.empty() && block.size() < max_draft_tokens) {
      const uint32_t token = Commonest(places);
      block.tokens.push_back(token);
      size_t left = 0;
      for (uint32_t place : places) {
        if (text_[place] == token && place + 1 < text_.size()) places[left++] = place + 1;
      }
      places.resize(left);
    }
    return block;
  }

  absl::StatusOr<CandidateTree> ProposeTree(const BlockShape& shape) override {
    CandidateTree block;
    std::vector<Guess> open;  // a heap: the best one first
    uint32_t made = 0;
    AddChildren({.score = 1, .places = Occurrences()}, /*node=*/0, open, made);
    while (!open.empty() && block.size() < shape.max_nodes) {
      std::pop_heap(open.begin(), open.end(), IsWorse);
      Guess best = std::move(open.back());
      open.pop_back();
      block.tokens.push_back(text_[best.places.front()]);
      block.parents.push_back(best.parent);
      if (best.depth == shape.max_draft_tokens) continue;
      size_t left = 0;
      for (uint32_t place : best.places) {
        if (place + 1 < text_.size()) best.places[left++] = place + 1;
      }
      best.places.resize(left);
      AddChildren(best, static_cast<uint32_t>(block.size()), open, made);
    }
    return block;
  }

 private:
  // A node that may come next.
  struct Guess {
    double score = 0;     // estimate of the chance that its whole path stands
    uint32_t number = 0;  // of equal ones the lower comes first
    uint32_t parent = 0;  // node
    uint32_t depth = 0;
    std::vector<uint32_t> places;  // of its token, the latest first; of the root: those that follow
  };
  static bool IsWorse(const Guess& a, const Guess& b) {
    return a.score != b.score ? a.score < b.score : a.number > b.number;
  }

  // The tokens at `above.places` are what follows `node`. Each gets its share of the places; one
  // place more is counted for what the text has not had here.
  void AddChildren(const Guess& above, uint32_t node, std::vector<Guess>& open, uint32_t& made) {
    absl::flat_hash_map<uint32_t, size_t> child_of;
    std::vector<Guess> children;
    for (uint32_t place : above.places) {
      const auto [child, is_new] = child_of.try_emplace(text_[place], children.size());
      if (is_new) {
        children.push_back({.number = made++, .parent = node, .depth = above.depth + 1});
      }
      children[child->second].places.push_back(place);
    }
    const double all = static_cast<double>(above.places.size()) + 1;
    for (Guess& child : children) {
      child.score = above.score * static_cast<double>(child.places.size()) / all;
      open.push_back(std::move(child));
      std::push_heap(open.begin(), open.end(), IsWorse);
    }
  }

  // The positions that follow the query, the latest first.
  std::vector<uint32_t> Occurrences() const {
    const absl::Span<const uint32_t> follows = index_.Follows(text_);
    std::vector<uint32_t> places;
    places.reserve(std::min(follows.size(), kMaxOccurrences));
    for (size_t i = follows.size(); i-- > 0 && places.size() < kMaxOccurrences;) {
      if (index_.SameAsLast(text_, follows[i])) places.push_back(follows[i]);
    }
    return places;
  }

  // The token that most of these places have, of equals the one of the latest place. `places`: the
  // latest first, at least one.
  uint32_t Commonest(absl::Span<const uint32_t> places) const {
    counts_->Clear();
    uint32_t max = 0;
    for (uint32_t place : places) max = std::max(max, counts_->Add(text_[place]));
    for (uint32_t place : places) {
      if (counts_->Of(text_[place]) == max) return text_[place];
    }
    TANDEM_CHECK(false) << "no place has the largest count";
    return 0;
  }

  std::vector<uint32_t> text_;
  NgramIndex index_;
  const std::shared_ptr<TokenCounts> counts_;
};

}  // namespace

DrafterFactory ContextNgramFactory(ContextNgramOptions options) {
  TANDEM_CHECK(options.query >= 1 && options.query <= 8) << options.query;
  // All drafters work on the drafting thread, one after the other.
  return {options.name,
          [query = options.query, counts = std::make_shared<TokenCounts>()](
              const speculation::SequenceSettings&,
              Proposal) -> absl::StatusOr<std::unique_ptr<Drafter>> {
            return std::make_unique<ContextNgram>(query, counts);
          },
          /*samples=*/false,
          /*trees=*/true};
}

}  // namespace tandem::draft_service
