#include "common/speculation/candidate_tree_codec.h"

#include <vector>

#include "absl/strings/str_cat.h"

namespace tandem::speculation {
namespace {

using Ids = google::protobuf::RepeatedField<uint32_t>;

template <typename Message>
void SetAllButTokens(const CandidateTree& tree, Message& wire) {
  if (tree.id != base::BlockId()) wire.mutable_block_id()->set_value(base::Number(tree.id));
  if (!tree.is_chain()) wire.mutable_parents()->Add(tree.parents.begin(), tree.parents.end());
  for (const sampling::SparseDistribution& q : tree.q) {
    internal::v1::SparseDistribution& sent = *wire.add_q();
    sent.mutable_ids()->Add(q.ids.begin(), q.ids.end());
    sent.mutable_weights()->Add(q.weights.begin(), q.weights.end());
  }
}

template <typename Message>
CandidateTree Read(const Message& wire, const Ids& tokens) {
  CandidateTree tree;
  tree.id = base::BlockId{wire.block_id().value()};
  tree.tokens.assign(tokens.begin(), tokens.end());
  tree.parents.assign(wire.parents().begin(), wire.parents().end());
  if (tree.is_chain()) tree.parents = std::vector<uint32_t>();  // gives its memory back
  tree.q.reserve(static_cast<size_t>(wire.q_size()));
  for (const internal::v1::SparseDistribution& q : wire.q()) {
    tree.q.push_back({{q.ids().begin(), q.ids().end()}, {q.weights().begin(), q.weights().end()}});
  }
  return tree;
}

}  // namespace

void ToWire(const CandidateTree& tree, internal::v1::Block& block) {
  block.mutable_tokens()->Add(tree.tokens.begin(), tree.tokens.end());
  SetAllButTokens(tree, block);
}

void ToWire(const CandidateTree& tree, internal::v1::Step& step) {
  if (tree.empty()) return;
  step.mutable_candidates()->Add(tree.tokens.begin(), tree.tokens.end());
  SetAllButTokens(tree, step);
}

CandidateTree FromWire(const internal::v1::Block& block) { return Read(block, block.tokens()); }

CandidateTree FromWire(const internal::v1::Step& step) { return Read(step, step.candidates()); }

std::optional<messages::Refusal> CheckCandidateTree(const CandidateTree& tree) {
  if (!tree.parents.empty() && tree.parents.size() != tree.size()) {
    return messages::Invalid(
        "parents", absl::StrCat("they do not form a tree: send one for each of the ", tree.size(),
                                " draft tokens, or none; there are ", tree.parents.size()));
  }
  for (size_t i = 0; i < tree.parents.size(); ++i) {
    if (tree.parents[i] <= i) continue;
    return messages::Invalid(absl::StrCat("parents[", i, "]"),
                             absl::StrCat("node ", tree.parents[i],
                                          " does not come before its draft token, which is node ",
                                          i + 1, ": they do not form a tree; send 0 to ", i));
  }
  if (!tree.has_valid_q_count()) {
    return messages::Invalid("q", absl::StrCat(tree.q.size(), " distributions for ", tree.size(),
                                               " draft tokens: send one each, or none"));
  }
  if (tree.is_chain()) return std::nullopt;
  if (!tree.q.empty()) {
    return messages::Invalid(
        "q", "a tree has none: its draft tokens are one-hot, under rules greedy and coupled only");
  }
  if (const size_t equal = tree.EqualSibling(); equal < tree.size()) {
    return messages::Invalid(
        absl::StrCat("parents[", equal, "]"),
        absl::StrCat("node ", tree.parents[equal], " has two children with the token ",
                     tree.tokens[equal], ": siblings are different tokens"));
  }
  return std::nullopt;
}

}  // namespace tandem::speculation
