#include "draft_service/drafters/mixed.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "draft_service/drafters/best_first.h"
#include "draft_service/drafters/successor_drafter.h"

namespace tandem::draft_service {
namespace {

class Mixed final : public Drafter {
 public:
  Mixed(int query, std::shared_ptr<ContextNgram::TokenCounts> counts, SuccessorChain rest)
      : context_(query, std::move(counts)), rest_(std::move(rest)) {}

  absl::Status Accept(uint32_t keep, absl::Span<const uint32_t> tokens) override {
    rest_.Accept(keep, tokens);
    return context_.Accept(keep, tokens);
  }

  absl::StatusOr<CandidateTree> Propose(uint32_t max_draft_tokens) override {
    TANDEM_ASSIGN_OR_RETURN(CandidateTree block, context_.Propose(max_draft_tokens));
    rest_.Extend(max_draft_tokens, block);
    return block;
  }

  absl::StatusOr<CandidateTree> ProposeTree(const BlockShape& shape) override {
    if (rest_.empty()) return CandidateTree();
    return GrowBestFirst(shape, Place{context_.Occurrences(), rest_.BeginTree()},
                         [this](const Place& place, const auto& add) {
                           for (Follower& follower : Followers(place)) {
                             add(follower.token, follower.weight, std::move(follower.place));
                           }
                         });
  }

 private:
  struct Place {
    ContextNgram::Places text;
    SuccessorChain::Place table;
  };
  struct Follower {
    uint32_t token;
    double weight;
    Place place;
  };

  // What the text has had here, and then what the table says, which gets the weight of what the
  // text has not had.
  std::vector<Follower> Followers(const Place& place) const {
    std::vector<Follower> followers;
    for (ContextNgram::Follower& follower : context_.Followers(place.text)) {
      followers.push_back(
          {follower.token,
           follower.weight,
           {std::move(follower.places), {follower.token, place.table.depth + 1, {}}}});
    }
    const double left = ContextNgram::WeightOfTheNew(place.text);
    for (const SuccessorChain::Follower& next : rest_.Followers(place.table)) {
      const auto had = std::find_if(followers.begin(), followers.end(),
                                    [&](const Follower& one) { return one.token == next.token; });
      if (had == followers.end()) {
        followers.push_back({next.token, left * next.weight, {{}, next.place}});
      } else {
        had->weight += left * next.weight;
        had->place.table = next.place;
      }
    }
    return followers;
  }

  ContextNgram context_;
  SuccessorChain rest_;
};

}  // namespace

DrafterFactory MixedFactory(MixedOptions options, std::shared_ptr<const SuccessorTable> table) {
  TANDEM_CHECK(table != nullptr);
  const int query = options.context.query;
  TANDEM_CHECK(query >= 1 && query <= 8) << query;
  return {options.name,
          [query, counts = ContextNgram::MakeCounts(), table = std::move(table)](
              const speculation::SequenceSettings& settings,
              Proposal proposal) -> absl::StatusOr<std::unique_ptr<Drafter>> {
            return std::make_unique<Mixed>(query, counts,
                                           SuccessorChain(table, settings, proposal));
          },
          /*samples=*/true,
          /*trees=*/true};
}

}  // namespace tandem::draft_service
