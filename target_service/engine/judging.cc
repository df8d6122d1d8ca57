#include "target_service/engine/judging.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"
#include "common/acceptance/tree.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/sampling/distribution.h"

namespace tandem::target_service {
namespace {

using speculation::CandidateTree;

bool LenientGreedy(const speculation::SequenceSettings& settings) {
  return settings.rule == acceptance::Rule::kLenient && settings.sampling.greedy();
}

// Absent when the row has none: a logit is NaN or +infinity, or none is finite.
std::optional<sampling::NodeLogprobs> NodeLogprobsOf(const sampling::Logprobs& logprobs,
                                                     std::optional<uint32_t> candidate,
                                                     std::optional<uint32_t> next_token,
                                                     uint32_t top) {
  if (std::isnan(logprobs(0))) return std::nullopt;
  sampling::NodeLogprobs row;
  if (candidate.has_value()) row.candidate = logprobs(*candidate);
  if (next_token.has_value()) row.next_token = logprobs(*next_token);
  if (top > 0) row.top = logprobs.Top(top);
  return row;
}

// Makes p of rows of one sequence.
class PMaker {
 public:
  PMaker(const speculation::SequenceSettings& settings, uint32_t vocabulary_size)
      : settings_(settings), vocabulary_size_(vocabulary_size) {
    if (!LenientGreedy(settings)) return;
    at_one_ = settings.sampling;
    at_one_->temperature = 1;
  }

  // `history`: null where nothing looks back.
  absl::StatusOr<sampling::Distribution> Make(absl::Span<const float> row,
                                              const sampling::TokenHistory* history,
                                              uint32_t tokens_before) const {
    const sampling::SamplingParameters& parameters =
        at_one_.has_value() ? *at_one_ : settings_.sampling;
    sampling::Distribution p =
        history == nullptr
            ? sampling::MakeDistribution(row, vocabulary_size_, parameters)
            : sampling::MakeDistribution(row, vocabulary_size_, parameters, *history);
    if (p.ids.empty()) return BrokenRow(tokens_before);
    return p;
  }

 private:
  const speculation::SequenceSettings& settings_;
  const uint32_t vocabulary_size_;
  std::optional<sampling::SamplingParameters> at_one_;
};

// Makes `history` the committed tokens and the draft tokens on the path to row `row` of the block.
// Those outside the vocabulary count as output too; nothing after them can stand.
void PutPath(const CandidateTree& block, uint32_t committed, size_t row,
             sampling::TokenHistory& history) {
  if (row == 0) return;
  if (block.parent(row - 1) == row - 1) {  // it goes on from the row before
    history.Append(block.tokens[row - 1]);
    return;
  }
  std::vector<uint32_t> path;
  for (size_t node = row; node > 0; node = block.parent(node - 1)) {
    path.push_back(block.tokens[node - 1]);
  }
  std::reverse(path.begin(), path.end());
  history.Truncate(committed);
  history.Append(path);
}

absl::Status MakeAll(const PMaker& maker, const CandidateTree& block, uint32_t committed,
                     sampling::TokenHistory* history, const model::Logits& logits, int first_row,
                     std::vector<sampling::Distribution>& p) {
  const std::vector<uint32_t> depths = acceptance::NodeDepths(block.parents);  // of a chain: {0}
  for (size_t i = 0; i <= block.tokens.size(); ++i) {
    if (history != nullptr) PutPath(block, committed, i, *history);
    const uint32_t depth = block.parents.empty() ? static_cast<uint32_t>(i) : depths[i];
    TANDEM_ASSIGN_OR_RETURN(
        sampling::Distribution made,
        maker.Make(logits.row(first_row + static_cast<int>(i)), history, committed + depth));
    p.push_back(std::move(made));
  }
  return absl::OkStatus();
}

// Of each node the draft token whose log probability is told: of a chain the next one; of a tree
// the child that stands, else the first one.
std::vector<std::optional<uint32_t>> ToldCandidates(const CandidateTree& block,
                                                    absl::Span<const acceptance::Entry> entries) {
  std::vector<std::optional<uint32_t>> told(block.size() + 1);
  for (size_t i = 0; i < block.size(); ++i) {
    std::optional<uint32_t>& of_parent = told[block.parent(i)];
    const bool stands = !block.parents.empty() && entries[i + 1].accept_probability >= 1;
    if (!of_parent.has_value() || stands) of_parent = block.tokens[i];
  }
  return told;
}

absl::StatusOr<std::vector<sampling::NodeLogprobs>> BlockLogprobs(
    const sampling::LogprobOptions& options, const CandidateTree& block, uint32_t committed,
    absl::Span<const acceptance::Entry> entries, absl::Span<const sampling::Distribution> p,
    const model::Logits& logits, int first_row, uint32_t vocabulary_size) {
  const std::vector<std::optional<uint32_t>> told = ToldCandidates(block, entries);
  std::vector<sampling::NodeLogprobs> all;
  all.reserve(entries.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    const auto logprobs = options.processed
                              ? sampling::Logprobs::OfDistribution(p[i])
                              : sampling::Logprobs::OfModel(
                                    logits.row(first_row + static_cast<int>(i)), vocabulary_size);
    std::optional<sampling::NodeLogprobs> row =
        NodeLogprobsOf(logprobs, told[i], entries[i].next_token, options.top);
    if (!row.has_value()) return BrokenRow(committed + static_cast<uint32_t>(i));
    all.push_back(*std::move(row));
  }
  return all;
}

}  // namespace

absl::Status BrokenRow(uint32_t tokens_before) {
  return absl::InternalError(
      absl::StrCat("the model's logits after ", tokens_before,
                   " tokens hold a NaN or an infinity: its weights or its input are broken"));
}

absl::StatusOr<Judgement> JudgeRows(const JudgeFunction& judge,
                                    const speculation::SequenceSettings& settings,
                                    const CandidateTree& block, uint32_t committed,
                                    sampling::TokenHistory* history, const model::Logits& logits,
                                    int first_row, uint32_t vocabulary_size) {
  const size_t rows = block.tokens.size() + 1;
  TANDEM_CHECK(first_row >= 0 && first_row + static_cast<int>(rows) <= logits.rows)
      << "rows " << first_row << " and " << rows - 1 << " more, of " << logits.rows;
  TANDEM_CHECK((history != nullptr) == settings.sampling.looks_back());
  TANDEM_CHECK(history == nullptr || history->size() == committed)
      << history->size() << " tokens in the history of " << committed;
  std::vector<sampling::Distribution> p;
  p.reserve(rows);
  const absl::Status made =
      MakeAll(PMaker(settings, vocabulary_size), block, committed, history, logits, first_row, p);
  if (history != nullptr) history->Truncate(committed);
  TANDEM_RETURN_IF_ERROR(made);
  std::vector<const sampling::SparseDistribution*> q;
  q.reserve(block.q.size());
  for (const auto& entry : block.q) q.push_back(entry.ids.empty() ? nullptr : &entry);

  acceptance::JudgeInput input;
  input.rule = settings.rule;
  input.key = {settings.seed, settings.sample_index, committed};
  input.p = p;
  input.candidates = block.tokens;
  input.q = q;
  input.leniency = settings.leniency.value_or(1);
  input.greedy = settings.sampling.greedy();
  input.parents = block.parents;
  Judgement judgement;
  judgement.entries = judge(input);
  TANDEM_CHECK(judgement.entries.size() == rows)
      << judgement.entries.size() << " entries for " << rows << " rows";
  if (settings.logprobs.has_value()) {
    TANDEM_ASSIGN_OR_RETURN(judgement.logprobs,
                            BlockLogprobs(*settings.logprobs, block, committed, judgement.entries,
                                          p, logits, first_row, vocabulary_size));
  }
  return judgement;
}

absl::StatusOr<sampling::NodeLogprobs> JudgePromptRow(const speculation::SequenceSettings& settings,
                                                      const sampling::TokenHistory* history,
                                                      absl::Span<const float> row,
                                                      uint32_t position, uint32_t token,
                                                      uint32_t vocabulary_size) {
  TANDEM_CHECK(settings.logprobs.has_value());
  std::optional<sampling::NodeLogprobs> taken;
  if (settings.logprobs->processed) {
    TANDEM_ASSIGN_OR_RETURN(const sampling::Distribution p,
                            PMaker(settings, vocabulary_size).Make(row, history, position));
    taken = NodeLogprobsOf(sampling::Logprobs::OfDistribution(p), token, std::nullopt,
                           settings.logprobs->top);
  } else {
    taken = NodeLogprobsOf(sampling::Logprobs::OfModel(row, vocabulary_size), token, std::nullopt,
                           settings.logprobs->top);
  }
  if (!taken.has_value()) return BrokenRow(position);
  return *std::move(taken);
}

}  // namespace tandem::target_service
