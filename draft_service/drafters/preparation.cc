#include "draft_service/drafters/preparation.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace tandem::draft_service {

Preparation::Preparation(uint32_t max_outcomes, uint32_t max_draft_tokens, OutcomeOdds& odds)
    : max_outcomes_(max_outcomes), max_draft_tokens_(max_draft_tokens), odds_(odds) {}

void Preparation::AddToBase(Ranking ranking) {
  TANDEM_CHECK(!begun_ && !base_is_known());
  if (!ranking.empty()) base_.tokens.push_back(ranking.front().token);
  base_.rankings.push_back(std::move(ranking));
}

void Preparation::CutBase(size_t nodes) {
  if (nodes < base_.tokens.size()) {
    base_.tokens.resize(nodes);
    base_.rankings.resize(nodes + 1);
  }
  begun_ = false;
  branches_.clear();
  next_.clear();
}

void Preparation::Begin(size_t room, size_t free_rows) {
  TANDEM_CHECK(!begun_);
  begun_ = true;
  room_ = room;
  free_rows_ = free_rows;
  const bool has_row = base_.tokens.size() <= room_ && free_rows_ > 0;
  if (base_is_known() || !has_row) return Choose();
  --free_rows_;
  next_.push_back(kBase);
}

// As long as the block that is asked for behind the outcome; 0: the context has no room for its
// token.
size_t Preparation::LengthAfter(size_t node) const {
  return node < room_ ? std::min<size_t>(max_draft_tokens_, room_ - node) : 0;
}

void Preparation::Choose() {
  double survival = 1;
  for (size_t node = 0; node < base_.rankings.size() && LengthAfter(node) > 0; ++node) {
    const Ranking& ranking = base_.rankings[node];
    if (ranking.empty()) break;
    const std::vector<double> chances = odds_.Of(ranking);
    // Where a draft token of the base comes next, the outcome says that it was rejected.
    for (size_t rank = node < base_.tokens.size() ? 1 : 0; rank < ranking.size(); ++rank) {
      const double score = survival * chances[rank];
      if (score < kMinChance) continue;
      branches_.push_back({static_cast<uint32_t>(node), ranking[rank].token, score, {}, {}});
    }
    survival *= chances[0];
  }
  std::stable_sort(branches_.begin(), branches_.end(),
                   [](const Branch& a, const Branch& b) { return a.score > b.score; });
  const size_t fit = free_rows_ / max_draft_tokens_;
  branches_.resize(std::min({branches_.size(), size_t{max_outcomes_}, fit}));
  for (size_t i = 0; i < branches_.size(); ++i) next_.push_back(i);
}

Preparation::Row Preparation::WantedRow(size_t i) const {
  if (next_[i] == kBase) {
    return {base_.tokens.back(), static_cast<int>(base_.tokens.size()) - 1};
  }
  const Branch& branch = branches_[next_[i]];
  return {branch.last(), branch.rows.empty() ? static_cast<int>(branch.node) : branch.rows.back()};
}

std::vector<uint32_t> Preparation::FirstPath() const {
  if (next_.front() == kBase) return base_.tokens;
  const Branch& branch = branches_[next_.front()];
  std::vector<uint32_t> path(base_.tokens.begin(), base_.tokens.begin() + branch.node);
  path.push_back(branch.next_token);
  path.insert(path.end(), branch.block.tokens.begin(), branch.block.tokens.end());
  return path;
}

void Preparation::Add(int row, Ranking ranking) {
  const size_t which = next_.front();
  next_.pop_front();
  if (which == kBase) {
    base_.rankings.push_back(std::move(ranking));
    return Choose();
  }
  Branch& branch = branches_[which];
  branch.rows.push_back(row);
  if (!ranking.empty()) branch.block.tokens.push_back(ranking.front().token);
  const bool ends = ranking.empty() || branch.block.tokens.size() == LengthAfter(branch.node);
  branch.block.rankings.push_back(std::move(ranking));
  if (!ends) next_.push_back(which);
}

std::vector<PreparedBlock> Preparation::Blocks() const {
  std::vector<PreparedBlock> blocks;
  for (const Branch& branch : branches_) {
    if (branch.block.tokens.empty()) continue;
    blocks.push_back({branch.node, branch.next_token, branch.block.tokens});
  }
  return blocks;
}

const Preparation::Branch* Preparation::Find(uint32_t node, uint32_t next_token) const {
  for (const Branch& branch : branches_) {
    if (branch.node == node && branch.next_token == next_token) return &branch;
  }
  return nullptr;
}

Preparation::Path Preparation::Follow(absl::Span<const uint32_t> tokens) const {
  size_t node = 0;
  while (node < tokens.size() && node < base_.tokens.size() && tokens[node] == base_.tokens[node]) {
    ++node;
  }
  Path path{node, {}};
  if (node == tokens.size()) return path;
  const Branch* branch = Find(static_cast<uint32_t>(node), tokens[node]);
  if (branch == nullptr) return path;
  tokens.remove_prefix(node + 1);
  for (size_t i = 0; i < branch->rows.size(); ++i) {
    if (i > 0 && (i > tokens.size() || tokens[i - 1] != branch->block.tokens[i - 1])) break;
    path.rows.push_back(branch->rows[i]);
  }
  return path;
}

Preparation::Chain Preparation::BlockAfter(absl::Span<const uint32_t> tokens) const {
  if (tokens.empty()) return {};
  const size_t node = tokens.size() - 1;
  const bool follows = node <= base_.tokens.size() &&
                       std::equal(tokens.begin(), tokens.end() - 1, base_.tokens.begin());
  const Branch* branch = follows ? Find(static_cast<uint32_t>(node), tokens.back()) : nullptr;
  return branch == nullptr ? Chain() : branch->block;
}

void Preparation::MoveTo(uint32_t node, uint32_t next_token) {
  const Branch* branch = Find(node, next_token);
  TANDEM_CHECK(branch != nullptr) << "no block for token " << next_token << " after " << node;
  Chain block = branch->block;
  base_ = std::move(block);
  begun_ = false;
  branches_.clear();
  next_.clear();
}

void Preparation::Learn(absl::Span<const uint32_t> tokens) {
  for (size_t i = 0; i < tokens.size() && i < base_.rankings.size(); ++i) {
    if (base_.rankings[i].empty()) return;
    odds_.Observe(base_.rankings[i], tokens[i]);
    if (i == base_.tokens.size() || tokens[i] != base_.tokens[i]) return;
  }
}

}  // namespace tandem::draft_service
