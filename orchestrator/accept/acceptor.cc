#include "orchestrator/accept/acceptor.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/acceptance/tree.h"
#include "common/base/check.h"
#include "common/random/random.h"
#include "orchestrator/accept/verdict_logprobs.h"
#include "orchestrator/request/round_record.h"
#include "orchestrator/request/verdict.h"

namespace tandem::orchestrator {

Acceptor::Acceptor(const SampleRequest& request, DecideFunction decide)
    : request_(request), decide_(decide ? std::move(decide) : DecideFunction(acceptance::Decide)) {}

absl::StatusOr<acceptance::Decision> Acceptor::Decide(uint32_t committed,
                                                      const CandidateTree& block,
                                                      const VerifyReply& verdict,
                                                      uint32_t vocabulary_size) const {
  const int candidates = static_cast<int>(block.size());
  const bool tree = !block.parents.empty();
  absl::Status valid = tree ? acceptance::ValidateTreeEntries(verdict.entries, block.tokens,
                                                              block.parents, vocabulary_size)
                            : acceptance::ValidateEntries(request_->rule, verdict.entries,
                                                          candidates, vocabulary_size);
  if (valid.ok() && request_->logprobs.has_value()) {
    valid = CheckLogprobs(block.parents, verdict.entries, verdict.logprobs, request_->logprobs->top,
                          vocabulary_size);
  }
  if (!valid.ok()) {
    return absl::InternalError(absl::StrCat("the target sent a broken verdict: ", valid.message()));
  }
  if (tree) return acceptance::DecideTree(verdict.entries, block.parents);
  const random::RoundKey key{request_->seed, request_.sample_index(), committed};
  return decide_(request_->rule, verdict.entries, acceptance::AcceptUniforms(key, candidates));
}

void Acceptor::Record(const CandidateTree& block, const acceptance::Decision& decision,
                      std::optional<PlainCause> cause, bool one_hot, Pass pass) {
  TANDEM_CHECK(cause.has_value() == block.empty());
  ++counts_.rounds;
  counts_.draft_tokens += static_cast<uint32_t>(block.size());
  counts_.accepted_tokens += decision.accepted;
  if (!block.parents.empty()) ++counts_.tree_rounds;
  if (counts_.accepted_histogram.size() <= decision.accepted) {
    counts_.accepted_histogram.resize(decision.accepted + 1);
  }
  ++counts_.accepted_histogram[decision.accepted];
  if (decision.rejected) ++counts_.rejected_rounds;
  counts_.batch_rows += pass.rows;
  counts_.batch_sequences += pass.sequences;
  if (one_hot) ++counts_.one_hot_blocks;
  if (cause.has_value()) ++counts_.plain_rounds[static_cast<int>(*cause)];
}

void Acceptor::RecordChoice(const LengthChoice& choice) {
  if (counts_.chosen_histogram.size() <= choice.tokens) {
    counts_.chosen_histogram.resize(choice.tokens + 1);
  }
  ++counts_.chosen_histogram[choice.tokens];
  if (choice.zero.has_value()) ++counts_.zero_rounds[static_cast<int>(*choice.zero)];
  counts_.estimates = choice.estimates;
}

void Acceptor::RecordDrafter(const RoundRecord& round) {
  if (counts_.drafters.empty()) counts_.drafters.resize(request_->drafters.size());
  DrafterCounts& counts = counts_.drafters[round.drafter->index];
  ++counts.rounds;
  if (!round.cause.has_value()) ++counts.drafted_rounds;
  counts.draft_tokens += round.draft_tokens;
  counts.accepted_tokens += round.accepted_tokens;
  counts.tokens += round.tokens;
  ++counts.reasons[static_cast<int>(round.drafter->reason)];
}

}  // namespace tandem::orchestrator
