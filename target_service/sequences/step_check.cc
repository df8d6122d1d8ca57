#include "target_service/sequences/step_check.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/messages/limits.h"
#include "common/messages/trace_context.h"
#include "common/speculation/candidate_tree_codec.h"

namespace tandem::target_service {
namespace {

using messages::Invalid;
using messages::Refusal;
using speculation::CandidateTree;

uint32_t MaxLength(const StepLimits& limits) {
  return std::min(limits.context_length, limits.max_length);
}

std::string MaxLengthText(const StepLimits& limits) {
  return limits.max_length < limits.context_length
             ? absl::StrCat("the ", limits.max_length,
                            " tokens that this target has room for, all sequences together")
             : absl::StrCat("the context length of ", limits.context_length);
}

std::optional<Refusal> CheckPrefix(const internal::v1::Prefix& prefix, const StepLimits& limits) {
  uint64_t committed = uint64_t{prefix.keep()} + static_cast<uint64_t>(prefix.tokens_size());
  if (committed == 0) {
    return Invalid("prefix", "keep + size(tokens) is 0: at least one token must be committed");
  }
  if (committed > MaxLength(limits)) {
    return Invalid("prefix", absl::StrCat("keep + size(tokens) is ", committed, ", above ",
                                          MaxLengthText(limits)));
  }
  for (int i = 0; i < prefix.tokens_size(); ++i) {
    if (prefix.tokens(i) >= limits.vocabulary_size) {
      return Invalid(
          absl::StrCat("prefix.tokens[", i, "]"),
          absl::StrCat(prefix.tokens(i), " is outside 0 to ", limits.vocabulary_size - 1));
    }
  }
  return std::nullopt;
}

// A verdict is one message.
std::optional<Refusal> CheckPromptLogprobs(const internal::v1::Step& step) {
  if (!step.prompt_logprobs() || step.prefix().tokens_size() <= messages::kMaxPromptLogprobTokens) {
    return std::nullopt;
  }
  return Invalid(
      "prompt_logprobs",
      absl::StrCat("they are told of at most ", messages::kMaxPromptLogprobTokens,
                   " tokens per Step, and prefix.tokens has ", step.prefix().tokens_size(),
                   ": send the prompt in Steps with `more`"));
}

// A tree is drafted under a rule that is exact whatever its values are, so an id that is not a
// token has no place in it.
std::optional<Refusal> CheckTree(const CandidateTree& tree, const StepLimits& limits) {
  if (limits.max_nodes == 0) {
    return Invalid("parents", "trees are not served here: leave it empty for a chain");
  }
  if (tree.size() > limits.max_nodes) {
    return Invalid("candidates",
                   absl::StrCat("a tree of ", tree.size(), " draft tokens is above the limit of ",
                                limits.max_nodes));
  }
  for (size_t i = 0; i < tree.size(); ++i) {
    if (tree.tokens[i] < limits.vocabulary_size) continue;
    return Invalid(absl::StrCat("candidates[", i, "]"),
                   absl::StrCat(tree.tokens[i], " is outside 0 to ", limits.vocabulary_size - 1));
  }
  if (const uint32_t depth = tree.depth(); depth > limits.max_draft_tokens) {
    return Invalid("parents",
                   absl::StrCat("a path of the tree has ", depth,
                                " draft tokens, above the limit of ", limits.max_draft_tokens));
  }
  return std::nullopt;
}

std::optional<Refusal> CheckBlock(const internal::v1::Step& step, const CandidateTree& block,
                                  const StepLimits& limits) {
  const uint64_t candidates = block.size();
  if (block.parents.empty() && candidates > limits.max_draft_tokens) {
    return Invalid("candidates",
                   absl::StrCat(candidates, " draft tokens are more than the limit of ",
                                limits.max_draft_tokens));
  }
  if (step.more() && candidates > 0) {
    return Invalid("candidates", "a Step with `more` has none");
  }
  if (auto refusal = speculation::CheckCandidateTree(block)) return refusal;
  if (!block.parents.empty()) {
    if (auto refusal = CheckTree(block, limits)) return refusal;
  }
  uint64_t committed =
      uint64_t{step.prefix().keep()} + static_cast<uint64_t>(step.prefix().tokens_size());
  if (committed + candidates > MaxLength(limits)) {
    return Invalid("candidates",
                   absl::StrCat(committed, " committed tokens and ", candidates,
                                " draft tokens exceed ", MaxLengthText(limits), ": at most ",
                                MaxLength(limits) - committed, " draft tokens"));
  }
  return std::nullopt;
}

// What another target may serve, and this one's engine does not.
std::optional<Refusal> CheckServed(const speculation::SequenceSettings& settings,
                                   const StepLimits& limits) {
  if (std::find(limits.rules.begin(), limits.rules.end(), settings.rule) == limits.rules.end()) {
    const std::string served = absl::StrJoin(
        limits.rules, ", ",
        [](std::string* out, acceptance::Rule rule) { *out += acceptance::Name(rule); });
    return Invalid("options.rule", absl::StrCat("rule ", acceptance::Name(settings.rule),
                                                " is not served here, but ", served));
  }
  if (settings.max_nodes > limits.max_nodes) {
    return Invalid("options.max_nodes",
                   limits.max_nodes == 0
                       ? "trees are not served here: send 0"
                       : absl::StrCat(settings.max_nodes, " is outside 0 to ", limits.max_nodes));
  }
  if (settings.logprobs.has_value() && !limits.logprobs) {
    return Invalid("options.logprobs", "log probabilities are not served here: leave them out");
  }
  return std::nullopt;
}

// The first field that a chained Step may not have and has; null: it has none.
const char* FieldOfItsOwn(const internal::v1::Step& step) {
  if (step.has_options()) return "options";
  if (step.has_prefix()) return "prefix";
  if (step.more()) return "more";
  if (step.has_block_id()) return "block_id";
  if (step.candidates_size() > 0) return "candidates";
  if (step.parents_size() > 0) return "parents";
  if (step.q_size() > 0) return "q";
  return step.prompt_logprobs() ? "prompt_logprobs" : nullptr;
}

std::optional<Refusal> CheckPrepared(const internal::v1::PreparedBlock& block,
                                     const std::string& path, const StepLimits& limits) {
  if (block.node() > limits.max_draft_tokens) {
    return Invalid(path + ".node",
                   absl::StrCat(block.node(), " is outside 0 to ", limits.max_draft_tokens));
  }
  if (block.next_token() >= limits.vocabulary_size) {
    return Invalid(path + ".next_token", absl::StrCat(block.next_token(), " is outside 0 to ",
                                                      limits.vocabulary_size - 1));
  }
  const int size = block.candidates_size();
  if (size == 0 || static_cast<uint32_t>(size) > limits.max_draft_tokens) {
    return Invalid(path + ".candidates",
                   absl::StrCat(size, " draft tokens are outside 1 to ", limits.max_draft_tokens));
  }
  return std::nullopt;
}

std::optional<Refusal> CheckChained(const internal::v1::Step& step, const StepLimits& limits) {
  if (const char* field = FieldOfItsOwn(step)) {
    return Invalid(field, "a chained Step takes it from the Step before: leave it out");
  }
  if (step.round() <= step.after()) {
    return Invalid(
        "after", absl::StrCat(step.after(), " is not below the Step's own round, ", step.round()));
  }
  if (step.prepared_size() > messages::kMaxPreparedBlocks) {
    return Invalid("prepared", absl::StrCat(step.prepared_size(), " blocks are above the limit of ",
                                            messages::kMaxPreparedBlocks));
  }
  for (int i = 0; i < step.prepared_size(); ++i) {
    const internal::v1::PreparedBlock& block = step.prepared(i);
    const std::string path = absl::StrCat("prepared[", i, "]");
    if (auto refusal = CheckPrepared(block, path, limits)) return refusal;
    for (int j = 0; j < i; ++j) {
      const internal::v1::PreparedBlock& other = step.prepared(j);
      if (block.node() != other.node() || block.next_token() != other.next_token()) continue;
      return Invalid(path, absl::StrCat("prepared[", j, "] is for the same outcome"));
    }
  }
  return std::nullopt;
}

void TakeChained(const internal::v1::Step& step, CheckedStep& checked) {
  checked.after = step.after();
  checked.prepared.reserve(static_cast<size_t>(step.prepared_size()));
  for (const internal::v1::PreparedBlock& sent : step.prepared()) {
    PreparedBlock& block = checked.prepared.emplace_back();
    block.node = sent.node();
    block.next_token = sent.next_token();
    block.block.tokens.assign(sent.candidates().begin(), sent.candidates().end());
  }
}

// A q that its draft token cannot have been drawn from is no reason to refuse a Step: checked as
// one-hot the draft token is exact whatever it was drawn from.
// Returns how many became one-hot.
uint32_t EmptyBadQ(const StepLimits& limits, CandidateTree& block) {
  uint32_t emptied = 0;
  for (size_t i = 0; i < block.q.size(); ++i) {
    if (sampling::ValidateFor(block.q[i], block.tokens[i], limits.vocabulary_size).ok()) continue;
    block.q[i] = {};
    ++emptied;
  }
  return emptied;
}

// A Step that is not chained.
std::optional<Refusal> CheckOwn(internal::v1::Step& step, const StepLimits& limits,
                                CheckedStep& checked) {
  if (step.after() != 0) return Invalid("after", "it goes with `prepared`: leave it out");
  if (auto refusal = CheckPrefix(step.prefix(), limits)) return refusal;
  if (auto refusal = CheckPromptLogprobs(step)) return refusal;
  checked.block = speculation::FromWire(step);
  if (auto refusal = CheckBlock(step, checked.block, limits)) return refusal;
  if (step.has_options()) {
    auto options = speculation::CheckSequenceOptions(step.options(), limits.context_length,
                                                     limits.vocabulary_size);
    if (auto* refusal = std::get_if<Refusal>(&options)) return std::move(*refusal);
    checked.options = std::get<speculation::SequenceSettings>(std::move(options));
    if (checked.options->max_length > MaxLength(limits)) {
      return Invalid("options.max_length", absl::StrCat(checked.options->max_length, " is above ",
                                                        MaxLengthText(limits)));
    }
    if (auto refusal = CheckServed(*checked.options, limits)) return refusal;
  }
  checked.more = step.more();
  checked.prompt_logprobs = step.prompt_logprobs();
  checked.one_hot_candidates = EmptyBadQ(limits, checked.block);
  checked.prefix = std::move(*step.mutable_prefix());
  return std::nullopt;
}

}  // namespace

std::variant<CheckedStep, Refusal> CheckStep(internal::v1::Step step, const StepLimits& limits) {
  if (step.has_trace()) {
    if (auto refusal = messages::CheckTraceContext(step.trace())) return *std::move(refusal);
  }
  CheckedStep checked;
  if (step.prepared_size() > 0) {
    if (auto refusal = CheckChained(step, limits)) return *std::move(refusal);
    TakeChained(step, checked);
  } else {
    if (auto refusal = CheckOwn(step, limits, checked)) return *std::move(refusal);
  }
  checked.sequence = base::SequenceId{step.sequence()};
  checked.round = step.round();
  if (step.remaining_us() > 0) {
    // Beyond 2^62 µs it is as good as unlimited, and absl takes a signed number.
    constexpr uint64_t kMax = uint64_t{1} << 62;
    if (step.remaining_us() < kMax) {
      checked.remaining = absl::Microseconds(static_cast<int64_t>(step.remaining_us()));
    }
  }
  if (step.has_trace()) checked.trace = messages::FromWire(step.trace());
  return checked;
}

}  // namespace tandem::target_service
