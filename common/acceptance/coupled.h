// The coupled rule: the target draws its own token at every position, by the race of plain decoding
// and with its noise. A draft token stands when it equals that draw. What is committed is always
// the target's own draw. So the text is that of plain decoding at the same seed, whatever the draft
// was and whether it came. And so the rule is exact for any draft, even one that knows the noise. A
// draft that runs the race of its q with the same noise agrees with probability sum over x of 1 /
// sum over y of max(p(y)/p(x), q(y)/q(x)), at least (1 - TV) / (1 + TV). Daliri, Musco, Suresh
// 2024, "Coupling without communication and drafter-invariant speculative decoding" (arXiv
// 2408.07978), coupling by Gumbel sampling.
//
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/acceptance/rule.h"

namespace tandem::acceptance {

// p: [K + 1]; `candidates`: [K]. y_i = sampling::DrawRace(p[i], key.seed, key.sample_index,
// key.committed + i): only the position counts, not where rounds began. K + 1 entries as in
// JudgeGreedy with y for the argmax: entry i + 1 has accept probability 1 when the draft token
// equals y_i, else 0 and entry i's next token is y_i.
std::vector<Entry> JudgeCoupled(absl::Span<const sampling::Distribution> p,
                                absl::Span<const uint32_t> candidates, const random::RoundKey& key);

}  // namespace tandem::acceptance
