#include "orchestrator/accept/verdict_logprobs.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace tandem::orchestrator {
namespace {

constexpr float kRounding = 1e-3f;

template <typename... Parts>
absl::Status Wrong(size_t node, const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat("node ", node, ": ", parts...));
}

absl::Status CheckOne(size_t node, absl::string_view name, std::optional<float> logprob,
                      bool wanted) {
  if (logprob.has_value() != wanted) {
    return Wrong(node, "the log probability of its ", name,
                 wanted ? " is missing" : " is too many");
  }
  if (!wanted || *logprob <= kRounding) return absl::OkStatus();  // a NaN goes on
  return Wrong(node, "the log probability of its ", name, " is ", *logprob, "; it is at most 0");
}

absl::Status CheckTop(size_t node, absl::Span<const sampling::TokenLogprob> top, uint32_t max,
                      uint32_t vocabulary_size) {
  if (top.size() > max) return Wrong(node, top.size(), " alternatives; at most ", max);
  for (const sampling::TokenLogprob& entry : top) {
    if (entry.token >= vocabulary_size || !(entry.logprob <= kRounding)) {
      return Wrong(node, "alternative ", entry.token, " with log probability ", entry.logprob);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckLogprobs(absl::Span<const uint32_t> parents,
                           absl::Span<const acceptance::Entry> entries,
                           absl::Span<const sampling::NodeLogprobs> nodes, uint32_t max_top,
                           uint32_t vocabulary_size) {
  if (nodes.size() != entries.size()) {
    return absl::InvalidArgumentError(absl::StrCat("log probabilities of ", nodes.size(),
                                                   " nodes for ", entries.size(), " entries"));
  }
  for (size_t i = 0; i < nodes.size(); ++i) {
    const bool followed = parents.empty()
                              ? i + 1 < nodes.size()
                              : std::find(parents.begin(), parents.end(), i) != parents.end();
    TANDEM_RETURN_IF_ERROR(CheckOne(i, "candidate", nodes[i].candidate, followed));
    TANDEM_RETURN_IF_ERROR(
        CheckOne(i, "next token", nodes[i].next_token, entries[i].next_token.has_value()));
    TANDEM_RETURN_IF_ERROR(CheckTop(i, nodes[i].top, max_top, vocabulary_size));
  }
  return absl::OkStatus();
}

absl::Status CheckPromptLogprobs(absl::Span<const sampling::NodeLogprobs> nodes, uint32_t max_top,
                                 uint32_t vocabulary_size) {
  for (size_t i = 0; i < nodes.size(); ++i) {
    TANDEM_RETURN_IF_ERROR(CheckOne(i, "prompt token", nodes[i].candidate, true));
    TANDEM_RETURN_IF_ERROR(CheckTop(i, nodes[i].top, max_top, vocabulary_size));
  }
  return absl::OkStatus();
}

std::vector<TokenLogprobs> CommittedLogprobs(const acceptance::Decision& decision,
                                             std::vector<sampling::NodeLogprobs> nodes) {
  TANDEM_CHECK(decision.last_node() < nodes.size());
  std::vector<TokenLogprobs> committed;
  for (uint32_t i = 0; i <= decision.accepted; ++i) {
    sampling::NodeLogprobs& node = nodes[i == 0 ? 0 : decision.node(i - 1)];
    const std::optional<float>& logprob = i < decision.accepted ? node.candidate : node.next_token;
    TANDEM_CHECK(logprob.has_value());
    committed.push_back({*logprob, std::move(node.top)});
  }
  return committed;
}

}  // namespace tandem::orchestrator
