#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/acceptance/speculative.h"
#include "common/random/random.h"
#include "common/sampling/sparse.h"
#include "common/sampling/token_history.h"
#include "tests/integration/planted.h"

namespace tandem::testing {
namespace {

using random::Purpose;
using sampling::Distribution;
using speculation::CandidateTree;
using speculation::Proposal;
using speculation::SequenceSettings;

constexpr uint8_t kBlocks = 4;  // of kLongestMatch

class FaultyDrafter final : public draft_service::Drafter {
 public:
  // `own_seed`: the request's, which no draft is told.
  FaultyDrafter(const TablePair& pair, DraftFault fault, const SequenceSettings& sequence,
                uint64_t own_seed)
      : pair_(pair),
        fault_(fault),
        sequence_(sequence),
        own_seed_(own_seed),
        target_(TargetTable(pair)),
        draft_(DraftTable(pair)) {
    q_sampling_ = sequence.sampling;
    if (fault == DraftFault::kDropsBannedToken) q_sampling_.banned.clear();
  }

  absl::Status Accept(uint32_t keep, absl::Span<const uint32_t> tokens) override {
    committed_.resize(keep);
    committed_.insert(committed_.end(), tokens.begin(), tokens.end());
    return absl::OkStatus();
  }

  absl::StatusOr<CandidateTree> Propose(uint32_t max_draft_tokens) override {
    if (fault_ == DraftFault::kGuessesRecovered) return Guess(max_draft_tokens);
    if (fault_ != DraftFault::kLongestMatch) return DrawBlock(max_draft_tokens, 0);
    CandidateTree best = DrawBlock(max_draft_tokens, 0);
    for (uint8_t level = 1; level < kBlocks; ++level) {
      CandidateTree other = DrawBlock(max_draft_tokens, level);
      if (WillStand(other) > WillStand(best)) best = std::move(other);
    }
    return best;
  }

 private:
  Distribution Row(const TableModel& table, absl::Span<const uint32_t> context,
                   const sampling::SamplingParameters& sampling) const {
    sampling::TokenHistory history(sequence_.prompt_tokens);
    history.Append(context);
    return sampling::MakeDistribution(table.LogitsAfter(context), pair_.vocabulary, sampling,
                                      history);
  }

  uint32_t committed() const { return static_cast<uint32_t>(committed_.size()); }

  CandidateTree DrawBlock(uint32_t max_length, uint8_t level) const {
    CandidateTree block;
    std::vector<uint32_t> context = committed_;
    const random::RoundKey key{sequence_.seed, sequence_.sample_index, committed()};
    while (block.tokens.size() < max_length) {
      const Distribution whole = Row(draft_, context, q_sampling_);
      const sampling::SparseDistribution q = sampling::Sparsify(whole, pair_.top_m);
      const uint32_t position = static_cast<uint32_t>(context.size());
      const uint32_t token =
          sampling::Draw(q, random::Uniform(key, position, Purpose::kDraft, level));
      if (fault_ == DraftFault::kDropsUnlikelyToken && q(token) < 0.3) break;
      if (fault_ == DraftFault::kDropsBannedToken && IsBanned(token)) break;
      block.tokens.push_back(token);
      block.q.push_back(fault_ == DraftFault::kQBeforeTruncation
                            ? sampling::Sparsify(whole, static_cast<int>(pair_.vocabulary))
                            : q);
      context.push_back(token);
    }
    return block;
  }

  bool IsBanned(uint32_t token) const {
    for (uint32_t banned : sequence_.sampling.banned) {
      if (banned == token) return true;
    }
    return false;
  }

  // How many draft tokens the target and the orchestrator will let stand.
  size_t WillStand(const CandidateTree& block) const {
    const random::RoundKey key{own_seed_, sequence_.sample_index, committed()};
    std::vector<uint32_t> context = committed_;
    for (size_t i = 0; i < block.tokens.size(); ++i) {
      const Distribution p = Row(target_, context, sequence_.sampling);
      const double accept = acceptance::AcceptProbability(p, block.tokens[i], &block.q[i]);
      const uint32_t position = static_cast<uint32_t>(context.size());
      if (!(random::Uniform(key, position, Purpose::kAccept) < accept)) return i;
      context.push_back(block.tokens[i]);
    }
    return block.tokens.size();
  }

  // One-hot. At a place that the block before had a draft token for: what would have replaced it.
  CandidateTree Guess(uint32_t max_length) {
    CandidateTree block;
    std::vector<uint32_t> context = committed_;
    const random::RoundKey key{own_seed_, sequence_.sample_index, 0};
    while (block.tokens.size() < max_length) {
      const size_t position = context.size();
      uint32_t token = sampling::ArgMax(draft_.LogitsAfter(context), pair_.vocabulary);
      if (position < last_text_.size()) {
        const Distribution p =
            Row(target_, absl::MakeConstSpan(last_text_).first(position), sequence_.sampling);
        const double u = random::Uniform(key, static_cast<uint32_t>(position), Purpose::kRecovered);
        token = acceptance::DrawResidual(p, last_text_[position], nullptr, u).value_or(token);
      }
      block.tokens.push_back(token);
      context.push_back(token);
    }
    last_text_ = std::move(context);
    return block;
  }

  const TablePair pair_;
  const DraftFault fault_;
  const SequenceSettings sequence_;
  const uint64_t own_seed_;
  const TableModel target_, draft_;
  sampling::SamplingParameters q_sampling_;
  std::vector<uint32_t> committed_;
  std::vector<uint32_t> last_text_;  // with the draft tokens of the block before
};

}  // namespace

draft_service::DrafterFactory PlantedDrafter(const TablePair& pair, DraftFault fault,
                                             const TextsOptions& texts) {
  absl::flat_hash_map<uint64_t, uint64_t> own_seeds;
  for (int i = 0; i < texts.requests; ++i) {
    own_seeds[random::DeriveDraftSeed(texts.first_seed + i)] = texts.first_seed + i;
  }
  draft_service::DrafterFactory factory;
  factory.make = [pair, fault, own_seeds = std::move(own_seeds)](
                     const SequenceSettings& sequence,
                     Proposal) -> absl::StatusOr<std::unique_ptr<draft_service::Drafter>> {
    auto own = own_seeds.find(sequence.seed);
    if (own == own_seeds.end()) return absl::InternalError("a seed of no request");
    return std::make_unique<FaultyDrafter>(pair, fault, sequence, own->second);
  };
  return factory;
}

}  // namespace tandem::testing
