// Requests of every kind, and what a greedy one must come to.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tandem/v1/generation.pb.h"
#include "tests/support/table_model.h"

namespace tandem::testing {

inline constexpr uint32_t kLetters = 12;  // the vocabulary: id 0 is "a", and so on

// Random lengths, temperatures, stop strings, draft lengths and drafters.
v1::GenerateRequest MixedRequest(std::mt19937_64& random);

struct ExpectedText {
  std::vector<uint32_t> ids;  // those that are sent
  std::string text;
  v1::FinishReason finish = v1::FINISH_REASON_LENGTH;
};

// What the target alone writes at temperature 0, worked out token by token from its table.
ExpectedText GreedyText(const TableModel& target, const v1::GenerateRequest& request);

}  // namespace tandem::testing
