// Requests of every kind, and what one must come to whose text does not depend on its draft.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tandem/v1/generation.pb.h"
#include "tests/support/table_model.h"

namespace tandem::testing {

inline constexpr uint32_t kLetters = 12;  // the vocabulary: id 0 is "a", and so on

// Random prompts (as text or as ids), lengths, rules, sampling options, stop strings, draft lengths
// and drafters; with a seed.
v1::GenerateRequest MixedRequest(std::mt19937_64& random);

struct ExpectedText {
  std::vector<uint32_t> ids;  // those that are sent
  std::string text;
  v1::FinishReason finish = v1::FINISH_REASON_LENGTH;
};

// Rules greedy and coupled (which a seed without a rule means) give the text of plain decoding.
bool IsPlain(const v1::GenerateRequest& request);

// What the target alone writes, worked out token by token from its table. `request` is one of
// MixedRequest, perhaps longer or without stops, and IsPlain.
ExpectedText PlainText(const TableModel& target, const v1::GenerateRequest& request);

}  // namespace tandem::testing
