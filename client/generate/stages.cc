#include "client/generate/stages.h"

namespace tandem::client {

const char* Name(Stage stage) {
  switch (stage) {
    case Stage::kDraft:
      return "draft";
    case Stage::kNetwork:
      return "network";
    case Stage::kSlot:
      return "slot";
    case Stage::kQueue:
      return "queue";
    case Stage::kDevice:
      return "device";
    case Stage::kOwn:
      return "own";
  }
  return "?";
}

uint64_t Microseconds(const v1::Stages& stages, Stage stage) {
  switch (stage) {
    case Stage::kDraft:
      return stages.draft_us();
    case Stage::kNetwork:
      return stages.network_us();
    case Stage::kSlot:
      return stages.slot_us();
    case Stage::kQueue:
      return stages.queue_us();
    case Stage::kDevice:
      return stages.device_us();
    case Stage::kOwn:
      return stages.own_us();
  }
  return 0;
}

uint64_t TotalMicroseconds(const v1::Stages& stages) {
  uint64_t total = 0;
  for (Stage stage : kStages) total += Microseconds(stages, stage);
  return total;
}

v1::Stages SumStages(absl::Span<const v1::RoundRecord> rounds) {
  v1::Stages sum;
  for (const v1::RoundRecord& round : rounds) {
    const v1::Stages& stages = round.stages();
    sum.set_draft_us(sum.draft_us() + stages.draft_us());
    sum.set_network_us(sum.network_us() + stages.network_us());
    sum.set_slot_us(sum.slot_us() + stages.slot_us());
    sum.set_queue_us(sum.queue_us() + stages.queue_us());
    sum.set_device_us(sum.device_us() + stages.device_us());
    sum.set_own_us(sum.own_us() + stages.own_us());
  }
  return sum;
}

std::optional<StageShare> SlowestStage(absl::Span<const v1::RoundRecord> rounds) {
  const v1::Stages sum = SumStages(rounds);
  const uint64_t total = TotalMicroseconds(sum);
  if (total == 0) return std::nullopt;
  Stage slowest = kStages[0];
  for (Stage stage : kStages) {
    if (Microseconds(sum, stage) > Microseconds(sum, slowest)) slowest = stage;
  }
  const uint64_t time = Microseconds(sum, slowest);
  return StageShare{slowest, static_cast<double>(time) / static_cast<double>(total),
                    absl::Microseconds(time) / static_cast<double>(rounds.size())};
}

}  // namespace tandem::client
