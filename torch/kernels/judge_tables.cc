#include "torch/kernels/judge_tables.h"

#include <algorithm>
#include <utility>

#include "common/acceptance/tree.h"
#include "common/base/check.h"
#include "common/random/random.h"

namespace tandem::kernels {
namespace {

using acceptance::Rule;
using speculation::CandidateTree;
using speculation::SequenceSettings;

RowRule RuleOf(const SequenceSettings& settings, size_t candidates) {
  if (settings.sampling.greedy()) {
    return settings.rule == Rule::kLenient ? RowRule::kLenientGreedy : RowRule::kOneHot;
  }
  if (candidates == 0) return RowRule::kRace;
  switch (settings.rule) {
    case Rule::kSpeculative:
    case Rule::kLenient:
      return RowRule::kRatio;
    case Rule::kBlock:
      return RowRule::kBlock;
    case Rule::kCoupled:
      return RowRule::kRace;
    case Rule::kGreedy:
      break;
  }
  TANDEM_CHECK(false) << "rule " << acceptance::Name(settings.rule) << " at temperature "
                      << settings.sampling.temperature;
  return RowRule::kNone;
}

// The first of these rows that is broken in one of these ways.
std::optional<uint32_t> FirstBroken(absl::Span<const RowVerdict> rows, uint32_t ways) {
  for (uint32_t i = 0; i < rows.size(); ++i) {
    if ((rows[i].broken & ways) != 0) return i;
  }
  return std::nullopt;
}

}  // namespace

void JudgeTables::Clear() {
  parts_.clear();
  sequences_.clear();
  rows_.clear();
  ids_.clear();
  numbers_.clear();
  top_stride_ = 0;
}

Slice JudgeTables::AddIds(absl::Span<const uint32_t> ids) {
  const Slice slice = {static_cast<uint32_t>(ids_.size()), static_cast<uint32_t>(ids.size())};
  ids_.insert(ids_.end(), ids.begin(), ids.end());
  return slice;
}

void JudgeTables::AddSeen(const sampling::TokenHistory& history, JudgeSequence& sequence) {
  std::vector<std::pair<uint32_t, uint32_t>> seen;  // token, count in the output
  seen.reserve(history.counts().size());
  for (const auto& [token, counts] : history.counts()) seen.emplace_back(token, counts.output);
  std::sort(seen.begin(), seen.end());
  sequence.seen = {static_cast<uint32_t>(ids_.size()), static_cast<uint32_t>(seen.size())};
  for (const auto& [token, output] : seen) ids_.push_back(token);
  sequence.seen_counts = static_cast<uint32_t>(ids_.size());
  for (const auto& [token, output] : seen) ids_.push_back(output);
}

JudgeSequence& JudgeTables::AddSequence(const SequenceSettings& settings, uint32_t tokens_before,
                                        const sampling::TokenHistory* history) {
  const sampling::SamplingParameters& parameters = settings.sampling;
  TANDEM_CHECK((history != nullptr) == parameters.looks_back());
  TANDEM_CHECK(history == nullptr || history->size() == tokens_before)
      << history->size() << " tokens in the history of " << tokens_before;
  JudgeSequence& sequence = sequences_.emplace_back();
  // As distribution.cc. Rule lenient at temperature 0 judges by p at temperature 1.
  sequence.scale = parameters.greedy() ? 1 : std::min(1 / parameters.temperature, 1e300);
  sequence.top_p = parameters.top_p;
  sequence.min_p = parameters.min_p;
  sequence.repetition_penalty = parameters.repetition_penalty;
  sequence.presence_penalty = parameters.presence_penalty;
  sequence.frequency_penalty = parameters.frequency_penalty;
  sequence.leniency = settings.rule == Rule::kLenient ? settings.leniency.value_or(1) : 1;
  sequence.seed = settings.seed;
  sequence.sample_index = settings.sample_index;
  sequence.top_k = parameters.top_k;
  sequence.min_tokens = parameters.min_tokens;
  sequence.prompt_tokens = settings.prompt_tokens;
  sequence.tokens_before = tokens_before;
  sequence.first_row = static_cast<uint32_t>(rows_.size());
  sequence.penalises = parameters.repetition_penalty != 1 || parameters.presence_penalty != 0 ||
                       parameters.frequency_penalty != 0;
  if (settings.logprobs.has_value()) {
    sequence.logprobs = settings.logprobs->processed ? RowLogprobs::kOfP : RowLogprobs::kOfModel;
    sequence.top_logprobs = settings.logprobs->top;
    top_stride_ = std::max(top_stride_, sequence.top_logprobs);
  }
  sequence.bias = {static_cast<uint32_t>(ids_.size()),
                   static_cast<uint32_t>(parameters.bias.size())};
  sequence.bias_numbers = static_cast<uint32_t>(numbers_.size());
  for (const sampling::TokenBias& bias : parameters.bias) {
    ids_.push_back(bias.token);
    numbers_.push_back(bias.bias);
  }
  sequence.banned = AddIds(parameters.banned);
  sequence.allowed = AddIds(parameters.allowed);
  sequence.stop = AddIds(parameters.stop_token_ids);
  if (history != nullptr && sequence.penalises != 0) AddSeen(*history, sequence);
  return sequence;
}

void JudgeTables::AddBlock(const SequenceSettings& settings, const CandidateTree& block,
                           uint32_t committed, const sampling::TokenHistory* history,
                           uint32_t first_logits_row) {
  parts_.push_back({sequences_.size(), block.parents, {}});
  if (block.parents.empty()) {
    AddChain(settings, block, committed, history, first_logits_row);
  } else {
    parts_.back().candidates = block.tokens;
    AddTree(settings, block, committed, history, first_logits_row);
  }
}

void JudgeTables::AddTree(const SequenceSettings& settings, const CandidateTree& block,
                          uint32_t committed, const sampling::TokenHistory* history,
                          uint32_t first_logits_row) {
  TANDEM_CHECK(acceptance::HasTrees(settings.rule)) << acceptance::Name(settings.rule);
  const std::vector<uint32_t> depths = acceptance::NodeDepths(block.parents);
  std::vector<std::optional<uint32_t>> first_children(depths.size());
  for (size_t i = 0; i < block.size(); ++i) {
    std::optional<uint32_t>& first = first_children[block.parents[i]];
    if (!first.has_value()) first = block.tokens[i];
  }
  JudgeSequence node = AddSequence(settings, committed, history);
  node.rule = RuleOf(settings, block.size());
  node.rows = 1;
  sequences_.pop_back();
  for (uint32_t i = 0; i < depths.size(); ++i) {
    std::vector<uint32_t> path(depths[i]);
    for (uint32_t at = i; at > 0; at = block.parents[at - 1]) {
      path[depths[at] - 1] = block.tokens[at - 1];
    }
    node.first_row = static_cast<uint32_t>(rows_.size());
    node.following = AddIds(path);
    sequences_.push_back(node);
    JudgeRow& row = rows_.emplace_back();
    row.sequence = static_cast<uint32_t>(sequences_.size() - 1);
    row.logits_row = first_logits_row + i;
    row.index = depths[i];
    if (!first_children[i].has_value()) continue;
    row.candidate_is = RowCandidate::kTold;
    row.candidate = *first_children[i];
  }
}

void JudgeTables::AddChain(const SequenceSettings& settings, const CandidateTree& block,
                           uint32_t committed, const sampling::TokenHistory* history,
                           uint32_t first_logits_row) {
  const uint32_t candidates = static_cast<uint32_t>(block.size());
  JudgeSequence& sequence = AddSequence(settings, committed, history);
  sequence.rule = RuleOf(settings, candidates);
  sequence.rows = candidates + 1;
  sequence.following = AddIds(block.tokens);
  const random::RoundKey key = {settings.seed, settings.sample_index, committed};
  for (uint32_t i = 0; i <= candidates; ++i) {
    JudgeRow& row = rows_.emplace_back();
    row.sequence = static_cast<uint32_t>(sequences_.size() - 1);
    row.logits_row = first_logits_row + i;
    row.index = i;
    const bool last = i == candidates;
    row.uniform = random::Uniform(key, committed + i,
                                  last ? random::Purpose::kBonus : random::Purpose::kRecovered);
    if (last) break;
    row.candidate_is = RowCandidate::kJudged;
    row.candidate = block.tokens[i];
    row.q_numbers = static_cast<uint32_t>(numbers_.size());
    if (block.q.empty() || block.q[i].ids.empty()) {  // one-hot
      row.q = AddIds({row.candidate});
      numbers_.push_back(1);
      continue;
    }
    const sampling::SparseDistribution& q = block.q[i];
    TANDEM_CHECK(q.ids.size() <= kMaxLowered) << q.ids.size();
    row.q = AddIds(q.ids);
    uint64_t sum = 0;
    for (uint32_t weight : q.weights) sum += weight;
    for (uint32_t weight : q.weights) {
      numbers_.push_back(static_cast<double>(weight) / static_cast<double>(sum));
    }
    row.q_candidate = q(row.candidate);
    TANDEM_CHECK(row.q_candidate > 0) << "q gives its draft token " << row.candidate << " nothing";
  }
}

void JudgeTables::AddPromptRows(const SequenceSettings& settings,
                                absl::Span<const uint32_t> targets, uint32_t position,
                                const sampling::TokenHistory* history, uint32_t first_logits_row) {
  TANDEM_CHECK(settings.logprobs.has_value());
  parts_.push_back({sequences_.size(), {}, {}});
  JudgeSequence& sequence = AddSequence(settings, position, history);
  sequence.rows = static_cast<uint32_t>(targets.size());
  sequence.following = AddIds(targets);
  for (uint32_t i = 0; i < targets.size(); ++i) {
    JudgeRow& row = rows_.emplace_back();
    row.sequence = static_cast<uint32_t>(sequences_.size() - 1);
    row.logits_row = first_logits_row + i;
    row.index = i;
    row.candidate_is = RowCandidate::kTold;
    row.candidate = targets[i];
  }
  // Their p, where it is wanted, is that of blocks: at temperature 0 all on one token.
  if (settings.sampling.greedy() && settings.rule != Rule::kLenient) {
    sequence.rule = RowRule::kNoneOneHot;
  }
}

std::vector<JudgedPart> JudgeTables::Read(absl::Span<const RowVerdict> verdicts,
                                          absl::Span<const TopLogprob> top) const {
  TANDEM_CHECK(verdicts.size() == rows_.size());
  TANDEM_CHECK(top.size() == rows_.size() * top_stride_);
  std::vector<JudgedPart> parts;
  parts.reserve(parts_.size());
  for (const Part& part : parts_) {
    parts.push_back(part.parents.empty() ? ReadPart(sequences_[part.first_sequence], verdicts, top)
                                         : ReadTree(part, verdicts, top));
  }
  return parts;
}

// As target_service/engine/judging.cc does it.
JudgedPart JudgeTables::ReadTree(const Part& tree, absl::Span<const RowVerdict> verdicts,
                                 absl::Span<const TopLogprob> top) const {
  JudgedPart part;
  const JudgeSequence& root = sequences_[tree.first_sequence];
  const auto nodes = static_cast<uint32_t>(tree.parents.size() + 1);
  const absl::Span<const RowVerdict> own = verdicts.subspan(root.first_row, nodes);
  if (const auto i = FirstBroken(own, kBrokenP)) {
    part.broken_after = root.tokens_before + rows_[root.first_row + *i].index;
    return part;
  }
  if (const auto i = FirstBroken(own, kBrokenModel)) {
    part.broken_after = root.tokens_before + *i;
    return part;
  }
  std::vector<uint32_t> draws;
  for (uint32_t i = 0; i < nodes; ++i) draws.push_back(verdicts[root.first_row + i].next_token);
  part.entries = acceptance::JudgeTree(draws, tree.candidates, tree.parents);
  if (root.logprobs == RowLogprobs::kNone) return part;
  for (uint32_t i = 0; i < nodes; ++i) {
    const uint32_t number = root.first_row + i;
    const RowVerdict& verdict = verdicts[number];
    sampling::NodeLogprobs& row = part.logprobs.emplace_back();
    if (!part.entries[i].next_token.has_value()) {  // a child stands, and it is what was drawn
      row.candidate = verdict.next_logprob;
    } else {
      if (rows_[number].candidate_is == RowCandidate::kTold)
        row.candidate = verdict.candidate_logprob;
      row.next_token = verdict.next_logprob;
    }
    AddTop(number, verdict, top, row);
  }
  return part;
}

void JudgeTables::AddTop(uint32_t row, const RowVerdict& verdict, absl::Span<const TopLogprob> top,
                         sampling::NodeLogprobs& to) const {
  for (uint32_t i = 0; i < verdict.top; ++i) {
    const TopLogprob& entry = top[size_t{row} * top_stride_ + i];
    to.top.push_back({entry.token, entry.logprob});
  }
}

JudgedPart JudgeTables::ReadPart(const JudgeSequence& sequence,
                                 absl::Span<const RowVerdict> verdicts,
                                 absl::Span<const TopLogprob> top) const {
  JudgedPart part;
  const bool is_block = sequence.rule != RowRule::kNone && sequence.rule != RowRule::kNoneOneHot;
  const bool p_counts = is_block || sequence.logprobs == RowLogprobs::kOfP;
  // All of p is made before any log probability: the first row without a p is what is told.
  for (const uint32_t broken : {p_counts ? kBrokenP : 0, kBrokenModel}) {
    const auto i = FirstBroken(verdicts.subspan(sequence.first_row, sequence.rows), broken);
    if (!i.has_value()) continue;
    part.broken_after = sequence.tokens_before + *i;
    return part;
  }
  for (uint32_t i = 0; i < sequence.rows; ++i) {
    const uint32_t number = sequence.first_row + i;
    const RowVerdict& verdict = verdicts[number];
    const bool has_next = verdict.next_token != kNoToken;
    if (is_block) {
      acceptance::Entry& entry = part.entries.emplace_back();
      entry.accept_probability = verdict.accept_probability;
      if (has_next) entry.next_token = verdict.next_token;
    }
    if (sequence.logprobs == RowLogprobs::kNone) continue;
    sampling::NodeLogprobs& row = part.logprobs.emplace_back();
    if (rows_[number].candidate_is != RowCandidate::kNone)
      row.candidate = verdict.candidate_logprob;
    if (has_next) row.next_token = verdict.next_logprob;
    AddTop(number, verdict, top, row);
  }
  return part;
}

}  // namespace tandem::kernels
