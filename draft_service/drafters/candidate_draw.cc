#include "draft_service/drafters/candidate_draw.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "common/acceptance/speculative.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/random/random.h"
#include "common/sampling/sparse.h"

namespace tandem::draft_service {
namespace {

using acceptance::Rule;
using speculation::CandidateTree;
using speculation::Proposal;
using speculation::SequenceSettings;

sampling::SamplingParameters At(sampling::SamplingParameters parameters, double temperature) {
  parameters.temperature = temperature;
  return parameters;
}

// The weights as probabilities.
sampling::Distribution WholeOf(const sampling::SparseDistribution& q) {
  std::vector<std::pair<uint32_t, uint32_t>> by_id;
  double sum = 0;
  for (size_t i = 0; i < q.ids.size(); ++i) {
    by_id.emplace_back(q.ids[i], q.weights[i]);
    sum += q.weights[i];
  }
  std::sort(by_id.begin(), by_id.end());
  sampling::Distribution whole;
  for (const auto& [id, weight] : by_id) {
    whole.ids.push_back(id);
    whole.probabilities.push_back(weight / sum);
  }
  return whole;
}

// They are those of a pruned output (model/pruned_output.h), and the model is not at fault.
bool HasLogitsForSome(absl::Span<const float> logits) {
  bool some = false, others = false;
  for (const float logit : logits) {
    if (std::isnan(logit) || logit == std::numeric_limits<float>::infinity()) return false;
    (std::isinf(logit) ? others : some) = true;
  }
  return some && others;
}

}  // namespace

CandidateDraw::Way CandidateDraw::WayOf(const SequenceSettings& settings, Proposal proposal) {
  if (proposal == Proposal::kGreedy) return Way::kMostLikely;
  if (settings.sampling.greedy() || settings.rule == Rule::kGreedy) return Way::kMostLikely;
  return settings.rule == Rule::kCoupled ? Way::kRace : Way::kFromQ;
}

CandidateDraw::CandidateDraw(const SequenceSettings& settings, Proposal proposal, int top_m,
                             uint32_t vocabulary_size, uint8_t level)
    : way_(WayOf(settings, proposal)),
      parameters_(way_ == Way::kMostLikely ? At(settings.sampling, 0) : settings.sampling),
      rank_parameters_(way_ == Way::kMostLikely ? At(settings.sampling, 1) : settings.sampling),
      seed_(settings.seed),
      sample_index_(settings.sample_index),
      level_(level),
      top_m_(top_m),
      vocabulary_size_(vocabulary_size),
      history_(settings.prompt_tokens) {
  TANDEM_CHECK(proposal != Proposal::kDefault);
  TANDEM_CHECK(vocabulary_size >= 1);
}

void CandidateDraw::Accept(uint32_t keep, absl::Span<const uint32_t> tokens) {
  if (!parameters_.looks_back()) return;
  history_.Truncate(keep);
  history_.Append(tokens);
}

void CandidateDraw::BeginBlock(uint32_t committed) {
  committed_ = committed;
  if (parameters_.looks_back()) history_.Truncate(committed);
}

absl::StatusOr<std::vector<sampling::RankedToken>> CandidateDraw::Rank(
    absl::Span<const float> logits, absl::Span<const uint32_t> path, size_t count) {
  if (parameters_.looks_back()) {
    history_.Truncate(committed_);
    history_.Append(path);
  }
  TANDEM_ASSIGN_OR_RETURN(const sampling::Distribution q, QOf(logits, rank_parameters_));
  return Rank(q, path.size(), count);
}

std::vector<sampling::RankedToken> CandidateDraw::Rank(const sampling::Distribution& q, size_t path,
                                                       size_t count) const {
  TANDEM_CHECK(way_ != Way::kFromQ) << "a rule that has no trees";
  if (way_ == Way::kMostLikely) return sampling::RankLikeliest(q, count);
  const uint32_t position = committed_ + static_cast<uint32_t>(path);
  std::vector<sampling::RankedToken> ranked =
      sampling::RankRace(q, seed_, sample_index_, position, count);
  // The target's scores are these and an error, which is about as large as the scores of one p
  // spread.
  double sum = 0;
  for (const sampling::RankedToken& token : ranked) sum += std::exp(token.score - ranked[0].score);
  const double all = ranked[0].score + std::log(sum);
  for (sampling::RankedToken& token : ranked) token.score -= all;
  return ranked;
}

absl::StatusOr<sampling::Distribution> CandidateDraw::QOf(
    absl::Span<const float> logits, const sampling::SamplingParameters& parameters) const {
  sampling::Distribution q =
      sampling::MakeDistribution(logits, vocabulary_size_, parameters, history_);
  if (!q.ids.empty()) return q;
  if (HasLogitsForSome(logits.first(std::min<size_t>(logits.size(), vocabulary_size_)))) {
    return absl::NotFoundError("the options leave no token that the draft has logits for");
  }
  return absl::InternalError("the draft model's logits hold a NaN or an infinity");
}

uint32_t CandidateDraw::PositionAfter(const CandidateTree& block) const {
  return committed_ + static_cast<uint32_t>(block.size());
}

void CandidateDraw::Add(uint32_t token, CandidateTree& block) {
  block.tokens.push_back(token);
  if (parameters_.looks_back()) history_.Append(token);
}

absl::Status CandidateDraw::Append(absl::Span<const float> logits, CandidateTree& block) {
  TANDEM_ASSIGN_OR_RETURN(const sampling::Distribution q, QOf(logits, parameters_));
  Append(q, block);
  return absl::OkStatus();
}

absl::Status CandidateDraw::Append(absl::Span<const float> logits, const Guess& guess,
                                   CandidateTree& block) {
  if (way_ != Way::kFromQ || guess.q == nullptr) return Append(logits, block);
  TANDEM_ASSIGN_OR_RETURN(const sampling::Distribution q, QOf(logits, parameters_));
  block.q.push_back(sampling::Sparsify(q, top_m_));
  const sampling::Distribution sent = WholeOf(block.q.back());
  const random::RoundKey key{seed_, sample_index_, committed_};
  const uint32_t position = PositionAfter(block);
  const auto number = [&](random::Purpose purpose) {
    return random::Uniform(key, position, purpose, guess.level);
  };
  std::optional<uint32_t> token;
  if (number(random::Purpose::kAccept) >=
      acceptance::AcceptProbability(sent, guess.token, guess.q)) {
    token =
        acceptance::DrawResidual(sent, guess.token, guess.q, number(random::Purpose::kRecovered));
  }
  Add(token.value_or(guess.token), block);  // no residual: the ratio was 1 but for rounding
  return absl::OkStatus();
}

absl::StatusOr<std::vector<sampling::RankedToken>> CandidateDraw::AppendRanked(
    absl::Span<const float> logits, size_t count, CandidateTree& block) {
  TANDEM_ASSIGN_OR_RETURN(auto ranked, Rank(logits, block.tokens, count));
  Add(ranked.front().token, block);
  return ranked;
}

absl::StatusOr<double> CandidateDraw::AppendWithChance(absl::Span<const float> logits,
                                                       CandidateTree& block) {
  TANDEM_ASSIGN_OR_RETURN(const auto ranked, AppendRanked(logits, kRivals, block));
  return std::exp(ranked.front().score);
}

void CandidateDraw::Append(const sampling::Distribution& q, CandidateTree& block) {
  TANDEM_CHECK(!q.ids.empty());
  const uint32_t position = PositionAfter(block);
  uint32_t token = 0;
  if (way_ == Way::kMostLikely) {
    const auto most = std::max_element(q.probabilities.begin(), q.probabilities.end());
    token = q.ids[static_cast<size_t>(most - q.probabilities.begin())];
  } else if (way_ == Way::kRace) {
    token = sampling::DrawRace(q, seed_, sample_index_, position);
  } else {
    const random::RoundKey key{seed_, sample_index_, committed_};
    block.q.push_back(sampling::Sparsify(q, top_m_));
    token = sampling::Draw(block.q.back(),
                           random::Uniform(key, position, random::Purpose::kDraft, level_));
  }
  Add(token, block);
}

}  // namespace tandem::draft_service
