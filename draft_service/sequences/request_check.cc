#include "draft_service/sequences/request_check.h"

#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/messages/trace_context.h"
#include "common/speculation/proposal_codec.h"
#include "common/speculation/sequence_options.h"
#include "draft_service/drafters/drafter.h"

namespace tandem::draft_service {
namespace {

using messages::Invalid;
using messages::Refusal;

std::optional<Refusal> CheckPrefix(const internal::v1::Prefix& prefix,
                                   const RequestLimits& limits) {
  for (int i = 0; i < prefix.tokens_size(); ++i) {
    if (prefix.tokens(i) >= limits.vocabulary_size) {
      return Invalid(
          absl::StrCat("prefix.tokens[", i, "]"),
          absl::StrCat(prefix.tokens(i), " is outside 0 to ", limits.vocabulary_size - 1));
    }
  }
  uint64_t committed = uint64_t{prefix.keep()} + static_cast<uint64_t>(prefix.tokens_size());
  if (committed > std::numeric_limits<uint32_t>::max()) {
    return Invalid("prefix", "keep + size(tokens) does not fit 32 bits");
  }
  return std::nullopt;
}

std::optional<Refusal> CheckShape(const internal::v1::Shape& shape, const RequestLimits& limits) {
  if (shape.max_draft_tokens() < 1 || shape.max_draft_tokens() > limits.max_draft_tokens) {
    return Invalid(
        "shape.max_draft_tokens",
        absl::StrCat(shape.max_draft_tokens(), " is outside 1 to ", limits.max_draft_tokens));
  }
  if (!(shape.min_confidence() >= 0 && shape.min_confidence() <= 1)) {
    return Invalid("shape.min_confidence",
                   absl::StrCat(shape.min_confidence(), " is outside 0 to 1"));
  }
  if (shape.min_confidence() > 0 && shape.max_nodes() > 0) {
    return Invalid("shape.min_confidence", "is of chains: send 0 with max_nodes above 0");
  }
  if (shape.max_outcomes() > kMaxOutcomes) {
    return Invalid("shape.max_outcomes",
                   absl::StrCat(shape.max_outcomes(), " is outside 0 to ", kMaxOutcomes));
  }
  return std::nullopt;
}

}  // namespace

std::variant<CheckedOpen, Refusal> CheckOpen(internal::v1::Open open, const RequestLimits& limits) {
  if (auto refusal = CheckPrefix(open.prefix(), limits)) return *std::move(refusal);
  // A draft's context may be shorter than the target's: past its end it proposes nothing.
  auto checked = speculation::CheckSequenceOptions(
      open.options(), std::numeric_limits<uint32_t>::max(), limits.vocabulary_size);
  if (auto* refusal = std::get_if<Refusal>(&checked)) return std::move(*refusal);
  auto& settings = std::get<speculation::SequenceSettings>(checked);
  if (settings.logprobs.has_value()) {
    return Invalid("options.logprobs",
                   "a draft has none to give: they come from the target, leave them out");
  }
  const std::optional<speculation::Proposal> proposal = speculation::FromWire(open.proposal());
  if (!proposal.has_value()) {
    return Invalid("proposal",
                   absl::StrCat("proposal ", static_cast<int>(open.proposal()), " is not known"));
  }
  if (settings.max_nodes > limits.max_nodes) {
    return Invalid("options.max_nodes",
                   limits.max_nodes == 0
                       ? "no drafter here makes trees: send 0"
                       : absl::StrCat(settings.max_nodes, " is outside 0 to ", limits.max_nodes));
  }
  CheckedOpen result;
  result.settings = std::move(settings);
  result.proposal = *proposal;
  result.drafter = open.drafter();
  result.prefix = std::move(*open.mutable_prefix());
  return result;
}

std::variant<CheckedAdvance, Refusal> CheckAdvance(internal::v1::Advance advance,
                                                   const RequestLimits& limits) {
  if (auto refusal = CheckPrefix(advance.prefix(), limits)) return *std::move(refusal);
  if (advance.prefix().keep() == 0 && advance.prefix().tokens_size() == 0) {
    return Invalid("prefix", "keep + size(tokens) is 0: at least one token must be committed");
  }
  if (auto refusal = CheckShape(advance.shape(), limits)) return *std::move(refusal);
  if (advance.has_trace()) {
    if (auto refusal = messages::CheckTraceContext(advance.trace())) return *std::move(refusal);
  }
  CheckedAdvance result;
  result.sequence = base::SequenceId{advance.sequence()};
  result.round = advance.round();
  result.max_draft_tokens = advance.shape().max_draft_tokens();
  result.max_nodes = advance.shape().max_nodes();
  result.min_confidence = advance.shape().min_confidence();
  result.max_outcomes = advance.shape().max_outcomes();
  const uint64_t within = advance.shape().wanted_within_us();
  if (within > 0 && within < uint64_t{1} << 62) {
    result.wanted_within = absl::Microseconds(static_cast<int64_t>(within));
  }
  result.prefix = std::move(*advance.mutable_prefix());
  return result;
}

}  // namespace tandem::draft_service
