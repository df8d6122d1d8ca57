// The drafter interface: four verbs, a file a drafter.
//
//   begin    DrafterFactory makes a Drafter for one sequence
//   propose  the next block after the committed tokens
//   accept   committed tokens changed: keep `keep` of them, then `tokens` follow
//   end      the destructor
//
// Whether a drawn token reaches the verifier must not depend on its value: a drafter that samples
// never drops, filters or exchanges a token that it has drawn. (Dropping a token because its q is
// low shifts the output; tests/integration has the negative control.)
//
// Thread safety: one thread at a time, the draft service's executor.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/sampling/distribution.h"
#include "common/sampling/sparse.h"

namespace tandem::draft_service {

struct DraftSequence {
  sampling::SamplingParameters sampling;
  uint64_t seed = 0;  // derived for the draft
  uint32_t sample_index = 0;
  uint32_t most_tokens = 0;  // prompt and output together
};

// A chain of candidates. Empty tokens: nothing to propose, which is always legal.
struct DraftedBlock {
  std::vector<uint32_t> tokens;
  std::vector<sampling::SparseDistribution>
      q;  // one a token, what it was drawn from; empty: one-hot
};

class Drafter {
 public:
  virtual ~Drafter() = default;

  // The committed tokens are now the first `keep` of those before, then `tokens`. Called before the
  // first Propose with keep = 0 and the prompt. keep is at most the committed count before.
  virtual absl::Status Accept(uint32_t keep, absl::Span<const uint32_t> tokens) = 0;

  // At most `most_tokens` (at least 1) candidates to follow the committed tokens.
  virtual absl::StatusOr<DraftedBlock> Propose(uint32_t most_tokens) = 0;
};

// One a kind of drafter, made at start-up.
struct DrafterFactory {
  std::string name;  // as in Open.drafter
  std::function<absl::StatusOr<std::unique_ptr<Drafter>>(const DraftSequence&)> make;
};

}  // namespace tandem::draft_service
