#include "draft_service/drafters/context_ngram.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "common/base/check.h"
#include "draft_service/drafters/best_first.h"

namespace tandem::draft_service {
namespace {

constexpr size_t kMaxOccurrences = ContextNgramOptions::kMaxOccurrences;

}  // namespace

// Counts up to kMaxOccurrences tokens. To begin again takes O(1).
class ContextNgram::TokenCounts {
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

std::shared_ptr<ContextNgram::TokenCounts> ContextNgram::MakeCounts() {
  return std::make_shared<TokenCounts>();
}

ContextNgram::ContextNgram(int query, std::shared_ptr<TokenCounts> counts)
    : index_(static_cast<size_t>(query)), counts_(std::move(counts)) {}

absl::Status ContextNgram::Accept(uint32_t keep, absl::Span<const uint32_t> tokens) {
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

absl::StatusOr<CandidateTree> ContextNgram::Propose(uint32_t max_draft_tokens) {
  CandidateTree block;
  Places places = Occurrences();
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

absl::StatusOr<CandidateTree> ContextNgram::ProposeTree(const BlockShape& shape) {
  return GrowBestFirst(shape, Occurrences(), [this](Places places, const auto& add) {
    for (Follower& follower : Followers(places)) {
      add(follower.token, follower.weight, std::move(follower.places));
    }
  });
}

std::vector<ContextNgram::Follower> ContextNgram::Followers(
    absl::Span<const uint32_t> places) const {
  absl::flat_hash_map<uint32_t, size_t> index_of;
  std::vector<Follower> followers;
  for (uint32_t place : places) {
    const auto [at, is_new] = index_of.try_emplace(text_[place], followers.size());
    if (is_new) followers.push_back({text_[place], 0, {}});
    Follower& follower = followers[at->second];
    follower.weight += 1;
    if (place + 1 < text_.size()) follower.places.push_back(place + 1);
  }
  for (Follower& follower : followers) follower.weight *= WeightOfTheNew(places);
  return followers;
}

double ContextNgram::WeightOfTheNew(absl::Span<const uint32_t> places) {
  return 1 / (static_cast<double>(places.size()) + 1);
}

ContextNgram::Places ContextNgram::Occurrences() const {
  const absl::Span<const uint32_t> follows = index_.Follows(text_);
  Places places;
  places.reserve(std::min(follows.size(), kMaxOccurrences));
  for (size_t i = follows.size(); i-- > 0 && places.size() < kMaxOccurrences;) {
    if (index_.SameAsLast(text_, follows[i])) places.push_back(follows[i]);
  }
  return places;
}

uint32_t ContextNgram::Commonest(absl::Span<const uint32_t> places) const {
  counts_->Clear();
  uint32_t max = 0;
  for (uint32_t place : places) max = std::max(max, counts_->Add(text_[place]));
  for (uint32_t place : places) {
    if (counts_->Of(text_[place]) == max) return text_[place];
  }
  TANDEM_CHECK(false) << "no place has the largest count";
  return 0;
}

DrafterFactory ContextNgramFactory(ContextNgramOptions options) {
  TANDEM_CHECK(options.query >= 1 && options.query <= 8) << options.query;
  // All drafters work on the drafting thread, one after the other.
  return {options.name,
          [query = options.query, counts = ContextNgram::MakeCounts()](
              const speculation::SequenceSettings&,
              Proposal) -> absl::StatusOr<std::unique_ptr<Drafter>> {
            return std::make_unique<ContextNgram>(query, counts);
          },
          /*samples=*/false,
          /*trees=*/true};
}

}  // namespace tandem::draft_service
