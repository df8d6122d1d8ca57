// The engine that belongs to a model, by where its logits are.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "model/language_model.h"
#include "target_service/engine/cpu_engine.h"
#include "target_service/engine/engine.h"
#include "torch/kernels/device_judge.h"

namespace tandem::target_service {

// On a processor: cpu_engine.h. On a card: torch_engine.h, if the judge's kernels are there, run,
// and pass their check (judge_check.h). Else logits are copied and judged by cpu_engine.h; the log
// says why (device_path_switched_off), and so do EngineInfo::switched_off and numerics_id.
//
// INVALID_ARGUMENT as CpuEngine::Create.
absl::StatusOr<std::unique_ptr<Engine>> MakeEngine(const CpuEngineOptions& options,
                                                   std::unique_ptr<model::LanguageModel> model);

// The same with what loads the judge's kernels: a fake, in tests.
using JudgeSource =
    std::function<absl::StatusOr<std::unique_ptr<kernels::DeviceJudge>>(uint32_t vocabulary_size)>;
absl::StatusOr<std::unique_ptr<Engine>> MakeEngine(const CpuEngineOptions& options,
                                                   std::unique_ptr<model::LanguageModel> model,
                                                   const JudgeSource& judge_source);

// Whether the first card's judge passes its check, for a model of so many tokens. What it fails with is
// what MakeEngine logs.
absl::Status CheckCardJudge(uint32_t vocabulary_size);

}  // namespace tandem::target_service
