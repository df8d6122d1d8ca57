// From the logits of a block's rows to the entries of its verdict.
//
// Thread safety: pure functions, if `judge` is one.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "common/acceptance/rule.h"
#include "common/rpc/sequence_options.h"
#include "model/language_model.h"
#include "target_service/options.h"
#include "target_service/step_check.h"

namespace tandem::target_service {

// Rows first_row … first_row + K of `logits` follow the last committed token and each candidate of
// `step`. `vocabulary_size`: ids at and above it have p = 0. K + 1 entries. INTERNAL when a row is no
// distribution (a NaN or an infinity in the model's output): nothing can be drawn from it.
absl::StatusOr<std::vector<acceptance::Entry>> JudgeRows(const JudgeFunction& judge,
                                                         const rpc::SequenceSettings& settings,
                                                         const CheckedStep& step,
                                                         const model::Logits& logits, int first_row,
                                                         uint32_t vocabulary_size);

}  // namespace tandem::target_service
