// Faults planted into the services' hooks, to show that the tests of the distribution would see
// them.
#pragma once

#include <cstdint>

#include "common/acceptance/rule.h"
#include "draft_service/drafters/drafter.h"
#include "target_service/engine/judging.h"
#include "tests/integration/distribution.h"
#include "tests/integration/table_pair.h"

namespace tandem::testing {

enum class DraftFault : uint8_t {
  kNone,
  kQBeforeTruncation,   // draws from the top-m, sends the whole q
  kDropsUnlikelyToken,  // a drawn token of low q does not reach the target
  kDropsBannedToken,    // q knows no bans; a banned token that was drawn does not reach the target
  // Not a fault with a right judge. Draft tokens are the recovered tokens that were drawn in the
  // round before and not used, as one who knows the seed computes them for a judge that has no
  // `committed` in its key.
  kGuessesRecovered,
  kLongestMatch,  // knows the seed; draws four blocks and sends the one that will stand longest
};

enum class JudgeFault : uint8_t {
  kNone,
  kResidualMissing,            // replaces from p
  kResidualOnlyDropsToken,     // replaces from p without the draft token
  kOneUniform,                 // the accepting uniform draws the recovered token, too
  kBonusFromQ,                 // what follows a whole block is the draft's draw
  kRecoveredWithoutCommitted,  // replacing uniforms are keyed by position alone
  kBlockWithoutCommitted,      // so are the accepting ones of rule block
  kSameUniformsEachRound,      // all uniforms are keyed by the place in the block alone
  kCountsNotRolledBack,        // the frequency penalty counts rejected draft tokens for ever
  // Minimum tokens are the judge's own work here (TextsOptions::asked has none):
  kMinimumByHand,         // done right
  kMinimumNotRolledBack,  // rejected draft tokens count as output for ever
  kOneNoiseForAllSamples,
};

// `texts`: for the seeds and options of the requests. Drafts from the table as the model drafter
// does, but for its fault.
draft_service::DrafterFactory PlantedDrafter(const TablePair& pair, DraftFault fault,
                                             const TextsOptions& texts);

target_service::JudgeFunction PlantedJudge(const TablePair& pair, JudgeFault fault,
                                           const TextsOptions& texts);

// Rule block, but what stands ends before the first draft token that does not pass.
acceptance::Decision DecideBlockAtFirstFailure(acceptance::Rule rule,
                                               absl::Span<const acceptance::Entry> entries,
                                               absl::Span<const double> uniforms);

}  // namespace tandem::testing
