// The orchestrator's half of the rule for one request: it checks a verdict, draws the uniforms,
// decides, and keeps the acceptance record.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "common/acceptance/rule.h"
#include "orchestrator/accept/decide_function.h"
#include "orchestrator/request/request.h"

namespace tandem::orchestrator {

struct RoundRecord;
struct VerifyReply;

// Not thread-safe: used on the request's strand.
class Acceptor {
 public:
  // `request` outlives this object. An empty `decide` means acceptance::Decide. Trees are decided
  // by acceptance::DecideTree, which draws nothing.
  Acceptor(const SampleRequest& request, DecideFunction decide);

  // Decides how much of `block`, verified after `committed` tokens, is accepted. INTERNAL means
  // that the verdict breaks its rules (common/acceptance/rule.h, accept/verdict_logprobs.h); that
  // is the target's fault, and nothing was decided. The function is pure: the same entries give the
  // same decision, however often they are sent.
  absl::StatusOr<acceptance::Decision> Decide(uint32_t committed, const CandidateTree& block,
                                              const VerifyReply& verdict,
                                              uint32_t vocabulary_size) const;

  // The size of the pass that decided a round, with the rows and sequences of other requests.
  struct Pass {
    uint32_t rows = 0;
    uint32_t sequences = 0;
  };
  // Adds a round to the record. Called once for each verdict that was applied. `cause` says why the
  // round had no block; it is absent if the round had one.
  void Record(const CandidateTree& block, const acceptance::Decision& decision,
              std::optional<PlainCause> cause, bool one_hot, Pass pass);

  void RecordPrepared(PreparedUse use) { ++counts_.prepared_rounds[static_cast<int>(use)]; }
  // Adds what the length policy chose for a round to the record.
  void RecordChoice(const LengthChoice& choice);
  // Adds a round to what its drafter did. The round has a drafter and is decided.
  void RecordDrafter(const RoundRecord& round);

  const AcceptanceCounts& counts() const { return counts_; }

 private:
  const SampleRequest request_;
  const DecideFunction decide_;
  AcceptanceCounts counts_;
};

}  // namespace tandem::orchestrator
