// Whether a card judges as this process does: the part of the self-check that needs no model.
#pragma once

#include "absl/status/status.h"
#include "torch/kernels/device_judge.h"

namespace tandem::target_service {

// Has the card judge random rows under every rule and with every kind of option, and compares every
// bit with the judge of cpu_engine.h. DATA_LOSS: they differ; the message says where. Else an error
// of the card. On the thread that calls; nothing else uses `judge` then.
absl::Status CheckJudge(kernels::DeviceJudge& judge);

}  // namespace tandem::target_service
