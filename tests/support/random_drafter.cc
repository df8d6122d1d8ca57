#include "tests/support/random_drafter.h"

#include <memory>
#include <numeric>

#include "common/base/check.h"
#include "common/random/random.h"

namespace tandem::testing {
namespace {

using draft_service::Drafter;
using draft_service::DrafterFactory;
using speculation::CandidateTree;
using speculation::Proposal;
using speculation::SequenceSettings;

bool CanSendQ(uint32_t vocabulary_size) {
  return vocabulary_size <= static_cast<uint32_t>(sampling::kMaxSparseEntries);
}

class RandomDrafter final : public Drafter {
 public:
  RandomDrafter(uint32_t vocabulary_size, const SequenceSettings& settings, Proposal proposal)
      : vocabulary_size_(vocabulary_size), settings_(settings), proposal_(proposal) {
    if (!SendsQ()) return;
    uniform_.ids.resize(vocabulary_size);
    std::iota(uniform_.ids.begin(), uniform_.ids.end(), 0U);
    uniform_.weights.assign(vocabulary_size, 1);
  }

  absl::Status Accept(uint32_t keep, absl::Span<const uint32_t> tokens) override {
    TANDEM_CHECK(keep <= committed_) << keep << " of " << committed_;
    committed_ = keep + static_cast<uint32_t>(tokens.size());
    return absl::OkStatus();
  }

  absl::StatusOr<CandidateTree> Propose(uint32_t max_draft_tokens) override {
    const random::RoundKey key{settings_.seed, settings_.sample_index, committed_};
    const bool send_q = !uniform_.ids.empty();
    CandidateTree block;
    for (uint32_t i = 0; i < max_draft_tokens; ++i) {
      const double u = random::Uniform(key, committed_ + i, random::Purpose::kDraft);
      block.tokens.push_back(send_q ? sampling::Draw(uniform_, u)
                                    : static_cast<uint32_t>(u * vocabulary_size_));
      if (send_q) block.q.push_back(uniform_);
    }
    return block;
  }

 private:
  bool SendsQ() const {
    // At temperature 0 only one token can stand, so q would say nothing.
    return CanSendQ(vocabulary_size_) && !settings_.sampling.greedy() &&
           settings_.rule != acceptance::Rule::kCoupled && proposal_ != Proposal::kGreedy;
  }

  const uint32_t vocabulary_size_;
  const SequenceSettings settings_;
  const Proposal proposal_;
  sampling::SparseDistribution uniform_;  // empty when it is not sent
  uint32_t committed_ = 0;
};

}  // namespace

DrafterFactory RandomDrafterFactory(RandomDrafterOptions options) {
  TANDEM_CHECK(options.vocabulary_size >= 1);
  return {options.name,
          [options](const SequenceSettings& settings,
                    Proposal proposal) -> absl::StatusOr<std::unique_ptr<Drafter>> {
            return std::make_unique<RandomDrafter>(options.vocabulary_size, settings, proposal);
          },
          CanSendQ(options.vocabulary_size)};
}

}  // namespace tandem::testing
