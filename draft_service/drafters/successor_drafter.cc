#include "draft_service/drafters/successor_drafter.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/sampling/distribution.h"
#include "draft_service/drafters/best_first.h"

namespace tandem::draft_service {
namespace {

// Children that a node of a tree gets at most.
constexpr size_t kMaxRanks = 32;
// The weight that the successors share where a continuation goes on.
constexpr double kBesideContinuation = 0.5;

// The weights at a temperature above 0.
sampling::Distribution DistributionOf(absl::Span<const Successor> successors, double temperature) {
  std::vector<Successor> by_id(successors.begin(), successors.end());
  std::sort(by_id.begin(), by_id.end(),
            [](const Successor& a, const Successor& b) { return a.token < b.token; });
  const double largest = std::log(static_cast<double>(successors.front().weight));
  sampling::Distribution q;
  double sum = 0;
  for (const Successor& one : by_id) {
    const double weight =
        std::exp((std::log(static_cast<double>(one.weight)) - largest) / temperature);
    if (weight < 1e-300) continue;  // no probability that a double holds
    q.ids.push_back(one.token);
    q.probabilities.push_back(weight);
    sum += weight;
  }
  for (double& probability : q.probabilities) probability /= sum;
  return q;
}

// The tokens that a chain goes on with: at most `room` of them.
void AppendContinuation(absl::Span<const uint32_t> continuation, size_t room,
                        CandidateTree& block) {
  continuation = continuation.first(std::min(continuation.size(), room));
  block.tokens.insert(block.tokens.end(), continuation.begin(), continuation.end());
}

class SuccessorDrafter final : public Drafter {
 public:
  SuccessorDrafter(std::shared_ptr<const SuccessorTable> table,
                   const speculation::SequenceSettings& settings, Proposal proposal)
      : chain_(std::move(table), settings, proposal) {}

  absl::Status Accept(uint32_t keep, absl::Span<const uint32_t> tokens) override {
    chain_.Accept(keep, tokens);
    return absl::OkStatus();
  }
  absl::StatusOr<CandidateTree> Propose(uint32_t max_draft_tokens) override {
    CandidateTree block;
    chain_.Extend(max_draft_tokens, block);
    return block;
  }
  absl::StatusOr<CandidateTree> ProposeTree(const BlockShape& shape) override {
    if (chain_.empty()) return CandidateTree();
    return GrowBestFirst(shape, chain_.BeginTree(),
                         [this](const SuccessorChain::Place& place, const auto& add) {
                           for (const auto& follower : chain_.Followers(place)) {
                             add(follower.token, follower.weight, follower.place);
                           }
                         });
  }

 private:
  SuccessorChain chain_;
};

size_t RankOf(uint32_t token, absl::Span<const Successor> successors) {
  const auto is = [token](const Successor& one) { return one.token == token; };
  return static_cast<size_t>(std::find_if(successors.begin(), successors.end(), is) -
                             successors.begin());
}

}  // namespace

SuccessorChain::SuccessorChain(std::shared_ptr<const SuccessorTable> table,
                               const speculation::SequenceSettings& settings, Proposal proposal,
                               uint8_t level)
    : table_(std::move(table)),
      temperature_(settings.sampling.temperature),
      // Nobody checks ids here: the table has what a tokenizer gave.
      draw_(settings, proposal == Proposal::kDefault ? Proposal::kSampled : proposal,
            sampling::kMaxSparseEntries, UINT32_MAX, level) {}

void SuccessorChain::Accept(uint32_t keep, absl::Span<const uint32_t> tokens) {
  TANDEM_CHECK(keep <= text_.size()) << keep << " of " << text_.size();
  text_.resize(keep);
  text_.insert(text_.end(), tokens.begin(), tokens.end());
  draw_.Accept(keep, tokens);
}

void SuccessorChain::Extend(uint32_t max_draft_tokens, CandidateTree& block) {
  if (text_.empty()) return;
  draw_.BeginBlock(static_cast<uint32_t>(text_.size()));
  while (block.size() < max_draft_tokens) {
    const uint32_t last = block.empty() ? text_.back() : block.tokens.back();
    const absl::Span<const Successor> successors = table_->After(last);
    if (successors.empty()) return;
    size_t rank = 0;
    if (draw_.takes_most_likely()) {
      block.tokens.push_back(successors.front().token);
    } else {
      if (draw_.sends_q()) block.q.resize(block.size());  // without ids: one-hot
      draw_.Append(DistributionOf(successors, temperature_), block);
      rank = RankOf(block.tokens.back(), successors);
    }
    AppendContinuation(table_->Continuation(last, rank), max_draft_tokens - block.size(), block);
    if (!block.q.empty()) block.q.resize(block.size());
  }
}

SuccessorChain::Place SuccessorChain::BeginTree() {
  draw_.BeginBlock(static_cast<uint32_t>(text_.size()));
  return {.token = text_.back(), .depth = 0, .continuation = {}};
}

std::vector<SuccessorChain::Follower> SuccessorChain::Followers(const Place& place) const {
  std::vector<Follower> followers;
  double left = 1;
  const auto add = [&](uint32_t token, double weight, absl::Span<const uint32_t> continuation) {
    followers.push_back({token, weight, {token, place.depth + 1, continuation}});
  };
  if (!place.continuation.empty()) {
    left = kBesideContinuation;
    add(place.continuation[0], 1 - left, place.continuation.subspan(1));
  }
  const absl::Span<const Successor> successors = table_->After(place.token);
  if (successors.empty()) return followers;
  const sampling::Distribution q =
      DistributionOf(successors, draw_.takes_most_likely() ? 1 : temperature_);
  for (const auto& ranked : draw_.Rank(q, place.depth, kMaxRanks)) {
    const double weight = left * std::exp(ranked.score);
    if (!followers.empty() && followers[0].token == ranked.token && left < 1) {
      followers[0].weight += weight;
    } else if (weight > 0) {
      add(ranked.token, weight,
          table_->Continuation(place.token, RankOf(ranked.token, successors)));
    }
  }
  return followers;
}

DrafterFactory SuccessorFactory(std::string name, std::shared_ptr<const SuccessorTable> table) {
  TANDEM_CHECK(table != nullptr);
  return {
      std::move(name),
      [table = std::move(table)](const speculation::SequenceSettings& settings,
                                 Proposal proposal) -> absl::StatusOr<std::unique_ptr<Drafter>> {
        return std::make_unique<SuccessorDrafter>(table, settings, proposal);
      },
      /*samples=*/true,
      /*trees=*/true};
}

}  // namespace tandem::draft_service
