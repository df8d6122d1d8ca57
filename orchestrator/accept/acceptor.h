// The orchestrator's half of the rule for one request: checks a verdict, draws the uniforms,
// decides, and keeps the record of how it went.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "common/acceptance/rule.h"
#include "orchestrator/accept/decide_function.h"
#include "orchestrator/request/request.h"

namespace tandem::orchestrator {

struct VerifyReply;

// Not thread-safe: one request's strand.
class Acceptor {
 public:
  // `request` outlives this. `decide` may be empty: acceptance::Decide.
  Acceptor(const SampleRequest& request, DecideFunction decide);

  // What of `block`, verified after `committed` tokens, stands. INTERNAL when the verdict breaks the
  // rules of one (common/acceptance/rule.h, accept/verdict_logprobs.h): the target's fault, and nothing
  // was decided. Pure: the same entries give the same decision, however often they were sent.
  absl::StatusOr<acceptance::Decision> Decide(uint32_t committed, const CandidateTree& block,
                                              const VerifyReply& verdict,
                                              uint32_t vocabulary_size) const;

  // Of the pass that decided a round: all rows and sequences in it, other requests' too.
  struct Pass {
    uint32_t rows = 0;
    uint32_t sequences = 0;
  };
  // Once for each verdict that was applied. `cause`: why the round had no block; absent: it had
  // one.
  void Record(const CandidateTree& block, const acceptance::Decision& decision,
              std::optional<PlainCause> cause, bool one_hot, Pass pass);

  const AcceptanceCounts& counts() const { return counts_; }

 private:
  const SampleRequest request_;
  const DecideFunction decide_;
  AcceptanceCounts counts_;
};

}  // namespace tandem::orchestrator
