// The stages of a round (generation.proto, Stages): their names, sums, and the slowest one.
//
// Thread safety: plain values and pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "tandem/v1/generation.pb.h"

namespace tandem::client {

// The order is that in which a round goes through the stages.
enum class Stage : uint8_t { kDraft, kNetwork, kSlot, kQueue, kDevice, kOwn };
inline constexpr Stage kStages[] = {Stage::kDraft, Stage::kNetwork, Stage::kSlot,
                                    Stage::kQueue, Stage::kDevice,  Stage::kOwn};
inline constexpr size_t kStageCount = 6;

// "draft", "network", "slot", "queue", "device", "own".
const char* Name(Stage stage);

inline double Milliseconds(uint64_t microseconds) {
  return static_cast<double>(microseconds) / 1000;
}

uint64_t Microseconds(const v1::Stages& stages, Stage stage);
uint64_t TotalMicroseconds(const v1::Stages& stages);
// The time of a round from its beginning to its decision.
inline uint64_t Microseconds(const v1::RoundRecord& round) {
  return TotalMicroseconds(round.stages());
}

v1::Stages SumStages(absl::Span<const v1::RoundRecord> rounds);

struct StageShare {
  Stage stage = Stage::kDraft;
  double share = 0;        // share of the rounds' time; 0 to 1
  absl::Duration a_round;  // on average
};

// The stage that took most of the rounds' time; of equal ones the earlier. nullopt when the rounds
// took no time.
std::optional<StageShare> SlowestStage(absl::Span<const v1::RoundRecord> rounds);

}  // namespace tandem::client
